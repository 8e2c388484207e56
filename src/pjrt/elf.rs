//! The loader maps what a library's headers promise and dies by a signal where the file ends before that, after
//! an interrupted copy say. So the promise is checked first. The format is that of the System V ABI, chapters 4
//! and 5.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

const HEADER_BYTES: usize = 64;
/// A program header of a 64-bit library.
const SEGMENT_BYTES: usize = 56;
const LOADED_SEGMENT: u64 = 1;

/// Why the file cannot be a whole 64-bit shared library, if that can be seen.
pub(super) fn flaw(path: &Path) -> io::Result<Option<String>> {
    if cfg!(not(target_os = "linux")) {
        return Ok(None);
    }
    let mut file = File::open(path)?;
    let found = file.metadata()?.len();
    let mut header = Vec::new();
    (&mut file).take(HEADER_BYTES as u64).read_to_end(&mut header)?;
    if header.len() < HEADER_BYTES || !header.starts_with(b"\x7fELF\x02\x01") {
        return Ok(Some("it is no 64-bit shared library".into()));
    }
    let (table, count) = (number(&header, 0x20, 8), number(&header, 0x38, 2));
    let mut segments = Vec::new();
    file.seek(SeekFrom::Start(table))?;
    file.take(count * SEGMENT_BYTES as u64).read_to_end(&mut segments)?;
    let end = segments
        .chunks_exact(SEGMENT_BYTES)
        .filter(|segment| number(segment, 0, 4) == LOADED_SEGMENT)
        .map(|segment| number(segment, 0x08, 8).saturating_add(number(segment, 0x20, 8)))
        .max();
    Ok(match end {
        Some(end) if end <= found => None,
        Some(end) => Some(format!("it is cut short: expected at least {end} bytes, found {found}")),
        None => Some("it has nothing to load".into()),
    })
}

/// The little-endian number of `width` bytes at `at`; what lies past the end counts as zero.
fn number(bytes: &[u8], at: usize, width: usize) -> u64 {
    (0..width).rev().fold(0, |value, i| value << 8 | u64::from(bytes.get(at + i).copied().unwrap_or(0)))
}
