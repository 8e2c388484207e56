use std::fmt;

macro_rules! ids {
    ($( $(#[$doc:meta])* $name:ident, $prefix:literal; )*) => { $(
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(u32);

        impl $name {
            /// The id of a position in the arena.
            ///
            /// # Panics
            /// If the position exceeds `u32::MAX`, which no arena reaches.
            pub fn new(index: usize) -> Self {
                Self(u32::try_from(index).expect("an arena holds fewer than 2^32 entries"))
            }

            /// The position in the arena.
            pub fn index(self) -> usize {
                self.0 as usize
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!($prefix, "{}"), self.0)
            }
        }
    )* };
}

ids! {
    /// Position of an instruction inside one computation.
    InstrId, "%";
    /// Position of a computation inside one module.
    CompId, "@";
}
