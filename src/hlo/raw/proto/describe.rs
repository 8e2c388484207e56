//! Messages that know their fields, so that bytes can be compared with them.

use std::collections::BTreeMap;

use prost::bytes::Bytes;

/// A message: its name and its fields.
pub(super) struct Descriptor {
    pub name: &'static str,
    pub fields: &'static [Field],
}

/// A field of a message.
pub(super) struct Field {
    pub number: u32,
    pub name: &'static str,
    /// The message in it, if it is one.
    pub message: fn() -> Option<&'static Descriptor>,
}

/// The message that a type of a field is or contains.
pub(super) trait Nested {
    fn message() -> Option<&'static Descriptor> {
        None
    }
}

impl Nested for i32 {}
impl Nested for i64 {}
impl Nested for u32 {}
impl Nested for u64 {}
impl Nested for f32 {}
impl Nested for f64 {}
impl Nested for bool {}
impl Nested for u8 {}
impl Nested for String {}
impl Nested for Bytes {}
/// The entries of a map have a key and a value, which are left to the decoder.
impl<K, V> Nested for BTreeMap<K, V> {}

impl<T: Nested> Nested for Vec<T> {
    fn message() -> Option<&'static Descriptor> {
        T::message()
    }
}

impl<T: Nested> Nested for Option<T> {
    fn message() -> Option<&'static Descriptor> {
        T::message()
    }
}

impl<T: Nested> Nested for Box<T> {
    fn message() -> Option<&'static Descriptor> {
        T::message()
    }
}

/// Defines messages by rows: `field: Type = number [how prost encodes it];`. A field that keeps a message encoded names it
/// after `of`.
macro_rules! messages {
    ($(
        $(#[$doc:meta])*
        $message:ident { $( $field:ident: $type:ty = $number:tt [$($kind:tt)*] $(of $inner:ident)?; )* }
    )*) => { $(
        $(#[$doc])*
        #[derive(Clone, PartialEq, prost::Message)]
        pub(in crate::hlo) struct $message {
            $(
                #[prost($($kind)*, tag = $number)]
                pub $field: $type,
            )*
        }

        impl crate::hlo::raw::proto::describe::Nested for $message {
            fn message() -> Option<&'static crate::hlo::raw::proto::describe::Descriptor> {
                use crate::hlo::raw::proto::describe::{Descriptor, Field, Nested};
                static MESSAGE: Descriptor = Descriptor {
                    name: stringify!($message),
                    fields: &[$( Field {
                        number: $number,
                        name: stringify!($field),
                        message: messages!(@nested $type $(, $inner)?),
                    }, )*],
                };
                Some(&MESSAGE)
            }
        }
    )* };
    (@nested $type:ty) => { <$type as Nested>::message };
    (@nested $type:ty, $inner:ident) => { <$inner as Nested>::message };
}

pub(super) use messages;
