/// Defines an enum of names: `ALL`, every variant in its order, and `name`, its spelling for users.
macro_rules! named_enum {
    (
        $(#[$of_enum:meta])*
        pub enum $type:ident { $( $(#[$of_variant:meta])* $variant:ident = $name:literal; )* }
    ) => {
        $(#[$of_enum])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum $type { $( $(#[$of_variant])* #[doc = concat!("(`", $name, "`)")] $variant, )* }

        impl $type {
            /// Every value, in the order of the definition.
            pub const ALL: &[Self] = &[$( Self::$variant, )*];

            /// Its spelling for users.
            pub const fn name(self) -> &'static str {
                match self { $( Self::$variant => $name, )* }
            }
        }
    };
}

pub(crate) use named_enum;
