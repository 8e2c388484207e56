//! Element types.

macro_rules! primitive_types {
    ($( $variant:ident = $name:literal, $number:literal, $bits:literal; )*) => {
        /// An element type, with XLA's spelling. Tuples and buffers are shapes, not element types.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[allow(missing_docs)]
        pub enum PrimitiveType { $( $variant, )* }

        impl PrimitiveType {
            /// Every element type.
            pub const ALL: &[PrimitiveType] = &[$( PrimitiveType::$variant, )*];

            /// The spelling in HLO text: `f32`, `f8e4m3fn`.
            pub const fn name(self) -> &'static str {
                match self { $( Self::$variant => $name, )* }
            }

            /// The number in `xla.PrimitiveType` of `xla_data.proto`.
            pub const fn xla_number(self) -> i32 {
                match self { $( Self::$variant => $number, )* }
            }

            /// Bits of one element where elements are packed as tightly as XLA packs them; 0 of opaque values and tokens.
            pub const fn bits(self) -> u64 {
                match self { $( Self::$variant => $bits, )* }
            }

            /// The type with this spelling.
            #[allow(non_upper_case_globals)]
            pub(super) fn from_name(name: &[u8]) -> Option<Self> {
                $( const $variant: &[u8] = $name.as_bytes(); )*
                match name {
                    $( $variant => Some(Self::$variant), )*
                    _ => None,
                }
            }
        }
    };
}

impl PrimitiveType {
    /// Whether it is a type of real floating-point numbers.
    pub fn is_float(self) -> bool {
        matches!(self.name().as_bytes()[0], b'f' | b'b')
    }

    /// Whether it is a type of integers, `pred` not among them.
    pub fn is_integer(self) -> bool {
        matches!(self.name().as_bytes()[0], b's' | b'u')
    }
}

primitive_types! {
    F32 = "f32", 11, 32;
    BF16 = "bf16", 16, 16;
    S32 = "s32", 4, 32;
    Pred = "pred", 1, 8;
    F16 = "f16", 10, 16;
    U32 = "u32", 8, 32;
    S1 = "s1", 30, 1;
    S2 = "s2", 26, 2;
    S4 = "s4", 21, 4;
    S8 = "s8", 2, 8;
    S16 = "s16", 3, 16;
    S64 = "s64", 5, 64;
    U1 = "u1", 31, 1;
    U2 = "u2", 27, 2;
    U4 = "u4", 22, 4;
    U8 = "u8", 6, 8;
    U16 = "u16", 7, 16;
    U64 = "u64", 9, 64;
    F64 = "f64", 12, 64;
    F8E5M2 = "f8e5m2", 19, 8;
    F8E4M3 = "f8e4m3", 28, 8;
    F8E4M3FN = "f8e4m3fn", 20, 8;
    F8E4M3B11FNUZ = "f8e4m3b11fnuz", 23, 8;
    F8E3M4 = "f8e3m4", 29, 8;
    F8E5M2FNUZ = "f8e5m2fnuz", 24, 8;
    F8E4M3FNUZ = "f8e4m3fnuz", 25, 8;
    F4E2M1FN = "f4e2m1fn", 32, 4;
    F6E3M2FN = "f6e3m2fn", 35, 6;
    F6E2M3FN = "f6e2m3fn", 36, 6;
    F8E8M0FNU = "f8e8m0fnu", 33, 8;
    C64 = "c64", 15, 64;
    C128 = "c128", 18, 128;
    Opaque = "opaque", 14, 0;
    Token = "token", 17, 0;
}
