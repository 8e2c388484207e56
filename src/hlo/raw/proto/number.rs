//! Floating-point numbers of all element types: their bits, and the digits that XLA prints.

use crate::hlo::raw::primitive::PrimitiveType;

/// A number with this many significant digits, as `%g` of C prints it.
fn general(value: f64, digits: usize) -> String {
    if value == 0.0 || !value.is_finite() {
        let sign = if value.is_sign_negative() { "-" } else { "" };
        return format!("{sign}{}", if value == 0.0 { "0" } else { "inf" });
    }
    let scientific = format!("{value:.*e}", digits - 1);
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let trimmed = |text: &str| match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text.to_owned(),
    };
    if exponent < -4 || exponent >= digits as i32 {
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{}e{sign}{:02}", trimmed(mantissa), exponent.abs());
    }
    let decimals = (digits as i32 - 1 - exponent).max(0) as usize;
    trimmed(&format!("{value:.decimals$}"))
}

/// The shortest of two lengths that reads back as the same number.
pub(super) fn double(value: f64) -> String {
    let short = general(value, 15);
    if short.parse() == Ok(value) { short } else { general(value, 17) }
}

/// The shortest of two lengths that reads back as the same number.
pub(super) fn single(value: f32) -> String {
    let short = general(f64::from(value), 6);
    if short.parse() == Ok(value) { short } else { general(f64::from(value), 9) }
}

/// The layout of the bits of a floating-point type: sign, exponent, mantissa.
#[derive(Clone, Copy)]
pub(super) struct Format {
    pub exponent_bits: u32,
    pub mantissa_bits: u32,
    bias: i32,
    special: Special,
    signed: bool,
}

/// Which bits of a type are not numbers.
#[derive(Clone, Copy, PartialEq)]
enum Special {
    /// The largest exponent is for infinity and NaN.
    Ieee,
    /// All ones are NaN.
    Nan,
    /// The bits of minus zero are NaN.
    NegativeZero,
    /// None.
    Finite,
}

impl Format {
    /// The format of a type of floating-point numbers.
    pub(super) fn of(element: PrimitiveType) -> Option<Self> {
        use PrimitiveType as P;
        let (exponent_bits, mantissa_bits, bias, special) = match element {
            P::F64 => (11, 52, 1023, Special::Ieee),
            P::F32 => (8, 23, 127, Special::Ieee),
            P::F16 => (5, 10, 15, Special::Ieee),
            P::BF16 => (8, 7, 127, Special::Ieee),
            P::F8E5M2 => (5, 2, 15, Special::Ieee),
            P::F8E4M3 => (4, 3, 7, Special::Ieee),
            P::F8E3M4 => (3, 4, 3, Special::Ieee),
            P::F8E4M3FN => (4, 3, 7, Special::Nan),
            P::F8E4M3B11FNUZ => (4, 3, 11, Special::NegativeZero),
            P::F8E5M2FNUZ => (5, 2, 16, Special::NegativeZero),
            P::F8E4M3FNUZ => (4, 3, 8, Special::NegativeZero),
            P::F4E2M1FN => (2, 1, 1, Special::Finite),
            P::F6E3M2FN => (3, 2, 3, Special::Finite),
            P::F6E2M3FN => (2, 3, 1, Special::Finite),
            P::F8E8M0FNU => (8, 0, 127, Special::Nan),
            _ => return None,
        };
        Some(Self { exponent_bits, mantissa_bits, bias, special, signed: element != P::F8E8M0FNU })
    }

    fn mantissa_mask(self) -> u64 {
        (1 << self.mantissa_bits) - 1
    }

    fn exponent_mask(self) -> u64 {
        (1 << self.exponent_bits) - 1
    }

    fn sign(self) -> u64 {
        if self.signed { 1 << (self.exponent_bits + self.mantissa_bits) } else { 0 }
    }

    fn is_nan(self, bits: u64) -> bool {
        let magnitude = bits & !self.sign();
        match self.special {
            Special::Ieee => magnitude > self.exponent_mask() << self.mantissa_bits,
            Special::Nan => magnitude == self.exponent_mask() << self.mantissa_bits | self.mantissa_mask(),
            Special::NegativeZero => bits == self.sign(),
            Special::Finite => false,
        }
    }

    fn infinity(self) -> Option<u64> {
        (self.special == Special::Ieee).then(|| self.exponent_mask() << self.mantissa_bits)
    }

    /// The largest finite number, without its sign.
    fn max(self) -> u64 {
        let all = self.exponent_mask() << self.mantissa_bits | self.mantissa_mask();
        match self.special {
            Special::Ieee => (self.exponent_mask() << self.mantissa_bits) - 1,
            Special::Nan => all - 1,
            Special::NegativeZero | Special::Finite => all,
        }
    }

    /// The value of a finite number or an infinity.
    fn value(self, bits: u64) -> f64 {
        let magnitude = bits & !self.sign();
        let sign = if bits & self.sign() != 0 { -1.0 } else { 1.0 };
        if self.infinity() == Some(magnitude) {
            return sign * f64::INFINITY;
        }
        let mantissa = (magnitude & self.mantissa_mask()) as f64;
        let exponent = (magnitude >> self.mantissa_bits) as i32;
        let one = (1_u64 << self.mantissa_bits) as f64;
        let (mantissa, exponent) = match exponent {
            // Without a sign there is no zero either.
            0 if self.signed => (mantissa, 1),
            _ => (mantissa + one, exponent),
        };
        sign * (mantissa / one) * power_of_two(exponent - self.bias)
    }

    /// The text that XLA prints for these bits.
    pub(super) fn text(self, bits: u64) -> String {
        if self.is_nan(bits) {
            return self.nan_text(bits);
        }
        match (self.exponent_bits, self.mantissa_bits) {
            (11, 52) => double(f64::from_bits(bits)),
            (8, 23) => single(f32::from_bits(bits as u32)),
            _ => {
                // As many digits as tell two neighbours apart.
                let digits = 2 + (self.mantissa_bits as usize + 1) * 30103 / 100_000;
                general(self.value(bits), digits)
            }
        }
    }

    fn nan_text(self, bits: u64) -> String {
        let sign = if bits & self.sign() != 0 { "-" } else { "" };
        let payload = bits & self.mantissa_mask();
        let quiet = 1_u64 << self.mantissa_bits >> 1;
        if self.special == Special::Ieee && payload != quiet {
            return format!("{sign}nan({payload:#x})");
        }
        format!("{sign}nan")
    }

    /// The bits of a text: a number, `inf`, `nan` or `nan(0x1)`. `None` if it is none of them, or the type cannot hold it.
    pub(super) fn bits(self, text: &str) -> Option<u64> {
        let (sign, magnitude) = match text.strip_prefix('-') {
            Some(rest) => (self.sign(), rest),
            None => (0, text),
        };
        if let Some(payload) = magnitude.strip_prefix("nan") {
            return self.nan_bits(sign, payload);
        }
        if magnitude == "inf" {
            // Without an infinity, the result is what is next to it.
            return Some(sign | self.infinity().or_else(|| self.nan()).unwrap_or_else(|| self.max()));
        }
        match (self.exponent_bits, self.mantissa_bits) {
            (11, 52) => text.parse::<f64>().ok().map(f64::to_bits),
            (8, 23) => text.parse::<f64>().ok().map(|value| u64::from((value as f32).to_bits())),
            _ => self.round(text.parse().ok()?),
        }
    }

    fn nan(self) -> Option<u64> {
        match self.special {
            Special::Ieee => Some(self.exponent_mask() << self.mantissa_bits | 1 << self.mantissa_bits >> 1),
            Special::Nan => Some(self.exponent_mask() << self.mantissa_bits | self.mantissa_mask()),
            Special::NegativeZero => Some(self.sign()),
            Special::Finite => None,
        }
    }

    fn nan_bits(self, sign: u64, payload: &str) -> Option<u64> {
        let nan = self.nan()?;
        if payload.is_empty() || self.special != Special::Ieee {
            return Some(sign | nan);
        }
        let payload = payload.strip_prefix("(0x")?.strip_suffix(')')?;
        let payload = u64::from_str_radix(payload, 16).ok().filter(|&bits| bits <= self.mantissa_mask())?;
        Some(sign | self.exponent_mask() << self.mantissa_bits | payload)
    }

    /// The nearest number of the type, ties to even.
    fn round(self, value: f64) -> Option<u64> {
        let sign = if value.is_sign_negative() { self.sign() } else { 0 };
        let magnitude = value.abs();
        if value.is_sign_negative() && magnitude > 0.0 && !self.signed {
            return None;
        }
        // Numbers of one sign are in the order of their bits.
        let (mut low, mut high) = (0, self.max());
        while low < high {
            let middle = low + (high - low).div_ceil(2);
            if self.value(middle) <= magnitude { low = middle } else { high = middle - 1 }
        }
        if low == self.max() && magnitude > self.value(low) {
            let ulp = self.value(low) - self.value(low - 1);
            if magnitude >= self.value(low) + ulp / 2.0 {
                return self.infinity().map(|bits| sign | bits);
            }
            return Some(sign | low);
        }
        let below = self.value(low);
        if magnitude > below {
            let above = self.value(low + 1);
            let (down, up) = (magnitude - below, above - magnitude);
            if up < down || (up == down && low & 1 == 1) {
                low += 1;
            }
        }
        // Minus zero is not a number of some types.
        if low == 0 && self.special == Special::NegativeZero { Some(0) } else { Some(sign | low) }
    }
}

fn power_of_two(exponent: i32) -> f64 {
    2_f64.powi(exponent)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn digits_are_those_of_c() {
        assert_eq!(single(0.1), "0.1");
        assert_eq!(single(123_456_790_519_087_104.0), "1.23456791e+17");
        assert_eq!(single(f32::MAX), "3.40282347e+38");
        assert_eq!(single(1e10), "1e+10");
        assert_eq!(single(-0.0), "-0");
        assert_eq!(single(f32::from_bits(1)), "1.4013e-45");
        assert_eq!(double(f64::MAX), "1.7976931348623157e+308");
        assert_eq!(double(1e-5), "1e-05");
        assert_eq!(double(300.0), "300");
    }

    #[test]
    fn every_number_of_a_small_type_reads_back() {
        for &element in PrimitiveType::ALL {
            let Some(format) = Format::of(element).filter(|_| element.bits() <= 16) else { continue };
            for bits in 0..1_u64 << element.bits() {
                let text = format.text(bits);
                assert_eq!(format.bits(&text), Some(bits), "{}: {text}", element.name());
            }
        }
    }

    #[test]
    fn numbers_that_a_type_cannot_hold() {
        let f8 = Format::of(PrimitiveType::F8E4M3FN).unwrap();
        assert_eq!(f8.text(f8.bits("449").unwrap()), "448");
        assert_eq!(f8.bits("1e9"), None);
        assert_eq!(Format::of(PrimitiveType::F4E2M1FN).unwrap().bits("nan"), None);
        assert_eq!(Format::of(PrimitiveType::F8E8M0FNU).unwrap().bits("-1"), None);
    }

    proptest! {
        #[test]
        fn numbers_read_back(bits in any::<u64>()) {
            for element in [PrimitiveType::F64, PrimitiveType::F32] {
                let format = Format::of(element).unwrap();
                let bits = bits >> (64 - element.bits());
                prop_assert_eq!(format.bits(&format.text(bits)), Some(bits));
            }
        }
    }
}
