use super::metadata::MetadataValue;

/// Limit of metadata values, 50 times those of the largest vocabularies.
const MAX_VALUES: usize = 1 << 24;

/// Error of parsing a header; the caller adds the file.
#[derive(Debug, PartialEq)]
pub(super) enum Fault {
    /// The file ends inside the header, which has at least this size.
    Ends(u64),
    /// A malformed header, with the location.
    Bad(String),
}

/// Sequential reader of a header, which checks every length against the remaining bytes.
pub(super) struct GgufCursor<'a> {
    bytes: &'a [u8],
    position: usize,
    values_left: usize,
}

impl<'a> GgufCursor<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, position: 0, values_left: MAX_VALUES }
    }

    /// Bytes read so far.
    pub(super) fn position(&self) -> usize {
        self.position
    }

    pub(super) fn u32(&mut self) -> Result<u32, Fault> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    pub(super) fn u64(&mut self) -> Result<u64, Fault> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    /// A number of items of at least `smallest` bytes each.
    pub(super) fn count(&mut self, smallest: usize) -> Result<usize, Fault> {
        let count = self.u64()?;
        let needed = count.saturating_mul(smallest as u64);
        if needed > (self.bytes.len() - self.position) as u64 {
            return Err(Fault::Ends((self.position as u64).saturating_add(needed)));
        }
        Ok(count as usize)
    }

    pub(super) fn string(&mut self) -> Result<String, Fault> {
        let start = self.position;
        let length = self.count(1)?;
        let text = std::str::from_utf8(self.take(length)?);
        text.map(str::to_owned).map_err(|_| Fault::Bad(format!("expected UTF-8 text at byte {start}")))
    }

    /// A metadata value: its type number, then its content.
    pub(super) fn value(&mut self) -> Result<MetadataValue, Fault> {
        let kind = self.u32()?;
        self.value_of(kind)
    }

    fn value_of(&mut self, kind: u32) -> Result<MetadataValue, Fault> {
        let Some(left) = self.values_left.checked_sub(1) else {
            return Err(Fault::Bad(format!("expected at most {MAX_VALUES} metadata values, found more")));
        };
        self.values_left = left;
        Ok(match kind {
            0 => MetadataValue::Integer(self.array::<1>()?[0].into()),
            1 => MetadataValue::Integer(i8::from_le_bytes(self.array()?).into()),
            2 => MetadataValue::Integer(u16::from_le_bytes(self.array()?).into()),
            3 => MetadataValue::Integer(i16::from_le_bytes(self.array()?).into()),
            4 => MetadataValue::Integer(self.u32()?.into()),
            5 => MetadataValue::Integer(i32::from_le_bytes(self.array()?).into()),
            6 => MetadataValue::Float(widen(f32::from_le_bytes(self.array()?))),
            7 => self.bool()?,
            8 => MetadataValue::Text(self.string()?),
            9 => self.list()?,
            10 => MetadataValue::Integer(self.u64()?.into()),
            11 => MetadataValue::Integer(i64::from_le_bytes(self.array()?).into()),
            12 => MetadataValue::Float(f64::from_le_bytes(self.array()?)),
            _ => {
                return Err(Fault::Bad(format!(
                    "unknown metadata type at byte {}: {kind}",
                    self.position - 4
                )));
            }
        })
    }

    fn bool(&mut self) -> Result<MetadataValue, Fault> {
        match self.array::<1>()?[0] {
            0 => Ok(MetadataValue::Bool(false)),
            1 => Ok(MetadataValue::Bool(true)),
            other => {
                Err(Fault::Bad(format!("expected a boolean at byte {}, found {other}", self.position - 1)))
            }
        }
    }

    fn list(&mut self) -> Result<MetadataValue, Fault> {
        let kind = self.u32()?;
        let smallest = match kind {
            2 | 3 => 2,
            4..=6 => 4,
            8 | 10..=12 => 8,
            9 => {
                return Err(Fault::Bad(format!(
                    "lists of lists are not supported, found one at byte {}",
                    self.position
                )));
            }
            _ => 1,
        };
        let count = self.count(smallest)?;
        (0..count).map(|_| self.value_of(kind)).collect::<Result<_, _>>().map(MetadataValue::List)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Fault> {
        let mut array = [0; N];
        array.copy_from_slice(self.take(N)?);
        Ok(array)
    }

    fn take(&mut self, n: usize) -> Result<&'a [u8], Fault> {
        let ends = Fault::Ends((self.position as u64).saturating_add(n as u64));
        let taken = self.bytes.get(self.position..).and_then(|rest| rest.get(..n)).ok_or(ends)?;
        self.position += n;
        Ok(taken)
    }
}

/// The float64 with the shortest decimal notation of the float32: 1e-5 stays 1e-5.
fn widen(value: f32) -> f64 {
    value.to_string().parse().unwrap_or(f64::from(value))
}
