use std::collections::BTreeMap;

use indexmap::IndexMap;

use super::Value;

/// A struct of values that loops and calls pass as a list, in the order of the fields, like a JAX pytree.
///
/// `value_tree!` implements it for structs whose fields are trees.
pub trait ValueTree<'b>: Sized {
    /// The same struct with values of another computation.
    type In<'t>: ValueTree<'t, In<'t> = Self::In<'t>>;

    /// Appends the values of the tree to `values`.
    fn flatten_into(&self, values: &mut Vec<Value<'b>>);

    /// Builds a tree of the same structure from other values.
    ///
    /// # Panics
    /// If there are fewer values than the tree has.
    fn unflatten<'t>(&self, values: &mut impl Iterator<Item = Value<'t>>) -> Self::In<'t>;

    /// Returns the values of the tree.
    fn flatten(&self) -> Vec<Value<'b>> {
        let mut values = Vec::new();
        self.flatten_into(&mut values);
        values
    }
}

impl<'b> ValueTree<'b> for Value<'b> {
    type In<'t> = Value<'t>;

    fn flatten_into(&self, values: &mut Vec<Value<'b>>) {
        values.push(*self);
    }

    fn unflatten<'t>(&self, values: &mut impl Iterator<Item = Value<'t>>) -> Value<'t> {
        values.next().expect("as many values as the tree was flattened to")
    }
}

impl<'b, T: ValueTree<'b>> ValueTree<'b> for Option<T> {
    type In<'t> = Option<T::In<'t>>;

    fn flatten_into(&self, values: &mut Vec<Value<'b>>) {
        self.iter().for_each(|tree| tree.flatten_into(values));
    }

    fn unflatten<'t>(&self, values: &mut impl Iterator<Item = Value<'t>>) -> Self::In<'t> {
        self.as_ref().map(|tree| tree.unflatten(values))
    }
}

impl<'b, T: ValueTree<'b>> ValueTree<'b> for Vec<T> {
    type In<'t> = Vec<T::In<'t>>;

    fn flatten_into(&self, values: &mut Vec<Value<'b>>) {
        self.iter().for_each(|tree| tree.flatten_into(values));
    }

    fn unflatten<'t>(&self, values: &mut impl Iterator<Item = Value<'t>>) -> Self::In<'t> {
        self.iter().map(|tree| tree.unflatten(values)).collect()
    }
}

impl<'b, A: ValueTree<'b>, B: ValueTree<'b>> ValueTree<'b> for (A, B) {
    type In<'t> = (A::In<'t>, B::In<'t>);

    fn flatten_into(&self, values: &mut Vec<Value<'b>>) {
        self.0.flatten_into(values);
        self.1.flatten_into(values);
    }

    fn unflatten<'t>(&self, values: &mut impl Iterator<Item = Value<'t>>) -> Self::In<'t> {
        (self.0.unflatten(values), self.1.unflatten(values))
    }
}

macro_rules! maps {
    ($( $map:ident: $bound:path; )*) => { $(
        impl<'b, K: Clone + $bound, T: ValueTree<'b>> ValueTree<'b> for $map<K, T> {
            type In<'t> = $map<K, T::In<'t>>;

            fn flatten_into(&self, values: &mut Vec<Value<'b>>) {
                self.values().for_each(|tree| tree.flatten_into(values));
            }

            fn unflatten<'t>(&self, values: &mut impl Iterator<Item = Value<'t>>) -> Self::In<'t> {
                self.iter().map(|(key, tree)| (key.clone(), tree.unflatten(values))).collect()
            }
        }
    )* };
}

/// The bounds on keys of an [`IndexMap`].
trait HashKey: std::hash::Hash + Eq {}

impl<T: std::hash::Hash + Eq> HashKey for T {}

maps! {
    BTreeMap: Ord;
    IndexMap: HashKey;
}

/// Implements [`ValueTree`] for structs of values, given their names and fields in order.
macro_rules! value_tree {
    ($( $name:ident { $( $field:ident ),* $(,)? } )*) => { $(
        impl<'b> $crate::hlo::ValueTree<'b> for $name<'b> {
            type In<'t> = $name<'t>;

            fn flatten_into(&self, values: &mut Vec<$crate::hlo::Value<'b>>) {
                let Self { $( $field ),* } = self;
                $( $field.flatten_into(values); )*
            }

            fn unflatten<'t>(
                &self,
                values: &mut impl Iterator<Item = $crate::hlo::Value<'t>>,
            ) -> $name<'t> {
                $name { $( $field: self.$field.unflatten(values) ),* }
            }
        }
    )* };
}
pub(crate) use value_tree;
