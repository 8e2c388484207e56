use std::{fmt, str::FromStr};

macro_rules! dtypes {
    ($( $(#[$doc:meta])* $variant:ident = $name:literal, $number:literal, $bits:literal, $kind:ident; )*) => {
        /// An element type, with the spelling of HLO text.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum DType { $( $(#[$doc])* $variant, )* }

        impl DType {
            /// Every element type.
            pub const ALL: &[DType] = &[$( DType::$variant, )*];

            /// The spelling in HLO text: `f32`, `pred`.
            pub const fn name(self) -> &'static str {
                match self { $( Self::$variant => $name, )* }
            }

            /// `xla.PrimitiveType`, as `xla_data.proto` and `PJRT_Buffer_Type`'s source number it.
            pub const fn xla_number(self) -> i32 {
                match self { $( Self::$variant => $number, )* }
            }

            /// Bits of one element in host memory; a `pred` has eight.
            pub const fn bits(self) -> usize {
                match self { $( Self::$variant => $bits, )* }
            }

            const fn kind(self) -> DTypeKind {
                match self { $( Self::$variant => DTypeKind::$kind, )* }
            }
        }
    };
}

#[derive(PartialEq)]
enum DTypeKind {
    Bool,
    Signed,
    Unsigned,
    Float,
}

dtypes! {
    /// A boolean, one byte of zero or one.
    Pred = "pred", 1, 8, Bool;
    /// 8-bit signed integer.
    S8 = "s8", 2, 8, Signed;
    /// 16-bit signed integer.
    S16 = "s16", 3, 16, Signed;
    /// 32-bit signed integer.
    S32 = "s32", 4, 32, Signed;
    /// 64-bit signed integer.
    S64 = "s64", 5, 64, Signed;
    /// 8-bit unsigned integer.
    U8 = "u8", 6, 8, Unsigned;
    /// 16-bit unsigned integer.
    U16 = "u16", 7, 16, Unsigned;
    /// 32-bit unsigned integer.
    U32 = "u32", 8, 32, Unsigned;
    /// 64-bit unsigned integer.
    U64 = "u64", 9, 64, Unsigned;
    /// IEEE 754 half precision.
    F16 = "f16", 10, 16, Float;
    /// IEEE 754 single precision.
    F32 = "f32", 11, 32, Float;
    /// IEEE 754 double precision.
    F64 = "f64", 12, 64, Float;
    /// The upper half of a single-precision float.
    BF16 = "bf16", 16, 16, Float;
}

impl DType {
    /// Bytes of one element in host memory.
    pub const fn bytes(self) -> usize {
        self.bits() / 8
    }

    /// Whether this is one of the floating-point types.
    pub const fn is_float(self) -> bool {
        matches!(self.kind(), DTypeKind::Float)
    }

    /// Whether this is a signed or unsigned integer type; `pred` is neither.
    pub const fn is_integer(self) -> bool {
        matches!(self.kind(), DTypeKind::Signed | DTypeKind::Unsigned)
    }

    /// Whether this is a signed integer type.
    pub const fn is_signed(self) -> bool {
        matches!(self.kind(), DTypeKind::Signed)
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A text that names no supported element type.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown element type: {0}")]
pub struct UnknownDType(pub String);

impl FromStr for DType {
    type Err = UnknownDType;

    fn from_str(text: &str) -> Result<Self, UnknownDType> {
        Self::ALL.iter().copied().find(|t| t.name() == text).ok_or_else(|| UnknownDType(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_parses_back() {
        for &dtype in DType::ALL {
            assert_eq!(dtype.name().parse(), Ok(dtype));
        }
        assert_eq!("f31".parse::<DType>(), Err(UnknownDType("f31".into())));
    }
}
