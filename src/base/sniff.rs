//! File formats recognized by the first bytes, for errors about files in another format than expected.

use std::{fmt, fs::File, io, io::Read, path::Path};

/// Bytes of the largest header that the reference implementation of safetensors reads.
pub(crate) const MAX_SAFETENSORS_HEADER: u64 = 100_000_000;

/// Maximum number of characters of a text that its description quotes.
const QUOTED: usize = 60;

/// The format that a file seems to be in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileKind {
    /// No bytes.
    Empty,
    /// The pointer that Git LFS writes in place of a file whose content was not fetched.
    LfsPointer,
    /// A web page, such as that of a login.
    Html,
    /// An XML document, such as the error of an object store.
    Xml,
    /// A file compressed by gzip.
    Gzip,
    /// A file compressed by xz, zstd or bzip2.
    Compressed(&'static str),
    /// A ZIP archive.
    Zip,
    /// A pickle of `torch.save`, alone or in a ZIP archive.
    TorchPickle,
    /// A tar archive.
    Tar,
    /// A GGUF file.
    Gguf,
    /// A safetensors file.
    Safetensors,
    /// A file of another known format, by its name.
    Other(&'static str),
    /// Text in UTF-16.
    Utf16,
    /// Text that begins like a JSON object or array.
    Json,
    /// Other text, by its first line.
    Text(String),
    /// Binary data of an unknown format.
    Binary,
}

/// Formats with a magic number of their own.
const MAGICS: &[(&[u8], FileKind)] = &[
    (b"GGUF", FileKind::Gguf),
    (b"\x1f\x8b", FileKind::Gzip),
    (b"\xfd7zXZ\0", FileKind::Compressed("xz")),
    (b"\x28\xb5\x2f\xfd", FileKind::Compressed("zstd")),
    (b"BZh", FileKind::Compressed("bzip2")),
    (b"\x89HDF", FileKind::Other("an HDF5 file")),
    (b"\x93NUMPY", FileKind::Other("a NumPy array")),
    (b"PAR1", FileKind::Other("a Parquet file")),
    (b"ARROW1", FileKind::Other("an Arrow file")),
    (b"\x7fELF", FileKind::Other("an ELF binary")),
    (b"%PDF-", FileKind::Other("a PDF document")),
    (b"ggml", FileKind::Other("a file in the old ggml format")),
    (b"lmgg", FileKind::Other("a file in the old ggml format")),
    (b"tjgg", FileKind::Other("a file in the old ggjt format")),
];

impl FileKind {
    /// Number of leading bytes that identify every format; the magic number of tar is at byte 257.
    const START: usize = 1024;

    /// The format of a file that begins with `bytes`, by its first kilobyte.
    pub fn of(bytes: &[u8]) -> Self {
        let start = &bytes[..bytes.len().min(Self::START)];
        if start.is_empty() {
            return Self::Empty;
        }
        // Before the magic numbers, since the length that it begins with can look like one of them.
        if is_safetensors(start) {
            return Self::Safetensors;
        }
        if let Some((_, kind)) = MAGICS.iter().find(|(magic, _)| start.starts_with(magic)) {
            return kind.clone();
        }
        match start {
            [b'P', b'K', 3 | 5, 4 | 6, ..] => zip(start),
            [0x80, 2..=5, ..] => Self::TorchPickle,
            [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => Self::Utf16,
            _ if start.get(257..262) == Some(b"ustar") => Self::Tar,
            _ => text(start).map_or(Self::Binary, of_text),
        }
    }

    /// The format of the file at `path`.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn of_file(path: &Path) -> io::Result<Self> {
        let mut start = Vec::new();
        File::open(path)?.take(Self::START as u64).read_to_end(&mut start)?;
        Ok(Self::of(&start))
    }

    /// Whether the file is text that may be the content meant: not a Git LFS pointer, a web page or an XML error.
    pub fn is_text(&self) -> bool {
        matches!(self, Self::Json | Self::Text(_))
    }

    /// A way to fix a file of this format where another is expected.
    pub fn hint(&self) -> Option<&'static str> {
        Some(match self {
            Self::Empty => "the download was interrupted or the disk was full: download the file again",
            Self::LfsPointer => {
                "the repository was cloned without the content of its large files: run `git lfs pull` in it"
            }
            Self::Html | Self::Xml => {
                "a server's answer was saved in place of the file: download it again, from the address of the raw \
                 file, and logged in if access to the model is restricted"
            }
            Self::Gzip => "decompress it, for example with `gunzip`",
            Self::Compressed(_) => "decompress it",
            Self::Zip => "unpack it, for example with `unzip`",
            Self::Tar => "unpack it, for example with `tar -xf`",
            Self::TorchPickle => {
                "convert it to safetensors: load it with transformers or PEFT and call `save_pretrained`"
            }
            Self::Gguf => "give the GGUF file itself as the model",
            Self::Safetensors => "give the folder that holds it, with its config.json",
            Self::Utf16 => "save it as UTF-8",
            Self::Text(_) => {
                "if this is a server's error message, download the file again, logged in if access to the model is \
                 restricted"
            }
            Self::Other(_) | Self::Json | Self::Binary => return None,
        })
    }
}

impl fmt::Display for FileKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Empty => "an empty file",
            Self::LfsPointer => "a Git LFS pointer",
            Self::Html => "an HTML page",
            Self::Xml => "an XML document",
            Self::Gzip => "a file compressed by gzip",
            Self::Compressed(by) => return write!(f, "a file compressed by {by}"),
            Self::Zip => "a ZIP archive",
            Self::TorchPickle => "a PyTorch pickle",
            Self::Tar => "a tar archive",
            Self::Gguf => "a GGUF file",
            Self::Safetensors => "a safetensors file",
            Self::Other(name) => name,
            Self::Utf16 => "text in UTF-16",
            Self::Json => "JSON",
            Self::Text(line) => return write!(f, "text that begins with `{line}`"),
            Self::Binary => "binary data of an unknown format",
        })
    }
}

/// Whether it begins with a plausible header length, then the header's opening brace.
fn is_safetensors(start: &[u8]) -> bool {
    let Some((length, rest)) = start.split_first_chunk::<8>() else { return false };
    (2..=MAX_SAFETENSORS_HEADER).contains(&u64::from_le_bytes(*length)) && rest.first() == Some(&b'{')
}

/// A ZIP archive, or a PyTorch checkpoint by the name of the first entry.
fn zip(start: &[u8]) -> FileKind {
    let length =
        start.get(26..28).map_or(0, |length| usize::from(u16::from_le_bytes([length[0], length[1]])));
    let name = start.get(30..).map_or(&[][..], |rest| &rest[..length.min(rest.len())]);
    let torch = name.ends_with(b"data.pkl") || name.ends_with(b".format_version");
    if torch { FileKind::TorchPickle } else { FileKind::Zip }
}

/// `start` as text, without a character that is cut off at its end; `None` for binary data.
fn text(start: &[u8]) -> Option<&str> {
    let text = match std::str::from_utf8(start) {
        Ok(text) => text,
        Err(error) if error.error_len().is_none() => {
            std::str::from_utf8(&start[..error.valid_up_to()]).ok()?
        }
        Err(_) => return None,
    };
    let is_control = |c: char| c.is_control() && !matches!(c, '\n' | '\r' | '\t' | '\u{c}');
    (!text.contains(is_control)).then_some(text)
}

fn of_text(text: &str) -> FileKind {
    let text = text.trim_start_matches('\u{feff}').trim_start();
    let lower = text.to_ascii_lowercase();
    let begins = |tags: &[&str]| tags.iter().any(|tag| lower.starts_with(tag));
    if text.is_empty() {
        FileKind::Empty
    } else if lower.starts_with("version https://git-lfs.github.com/spec/") {
        FileKind::LfsPointer
    } else if begins(&["<!doctype html", "<html", "<head", "<body"])
        || begins(&["<?xml", "<!--"]) && lower.contains("<html")
    {
        FileKind::Html
    } else if begins(&["<?xml", "<error>", "<!doctype"]) {
        FileKind::Xml
    } else if begins(&["{", "["]) {
        FileKind::Json
    } else {
        let line = text.lines().next().unwrap_or_default().trim_end();
        let short: String = line.chars().take(QUOTED).collect();
        let dots = if short.len() < line.len() { "..." } else { "" };
        FileKind::Text(format!("{short}{dots}"))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[track_caller]
    fn check(start: &[u8], expect: &str) {
        assert_eq!(FileKind::of(start).to_string(), expect);
    }

    #[test]
    fn formats_are_recognized_by_how_they_begin() {
        check(b"", "an empty file");
        check(b" \n", "an empty file");
        check(
            b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 2471645608\n",
            "a Git LFS pointer",
        );
        check(b"\n<!DOCTYPE html>\n<html>", "an HTML page");
        check(b"<?xml version=\"1.0\"?>\n<Error><Code>AccessDenied</Code></Error>", "an XML document");
        check(b"<?xml version=\"1.0\"?><!DOCTYPE html><html>", "an HTML page");
        check(b"\x1f\x8b\x08\0", "a file compressed by gzip");
        check(b"\x28\xb5\x2f\xfd", "a file compressed by zstd");
        check(b"GGUF\x03\0\0\0", "a GGUF file");
        check(b"\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19.", "a PyTorch pickle");
        check(b"\x89HDF\r\n", "an HDF5 file");
        check(b"\xff\xfe{\0", "text in UTF-16");
        check("\u{feff}{\"a\": 1}".as_bytes(), "JSON");
        check(b"Invalid username or password.", "text that begins with `Invalid username or password.`");
        check(&[b'a'; 100], &format!("text that begins with `{}...`", "a".repeat(60)));
        check(b"\0\0\0\0", "binary data of an unknown format");
        let mut tar = vec![b'a'; 512];
        tar[257..262].copy_from_slice(b"ustar");
        check(&tar, "a tar archive");
    }

    #[test]
    fn a_torch_zip_is_distinguished_from_other_zips() {
        let zip = |name: &str| {
            let mut bytes = b"PK\x03\x04".to_vec();
            bytes.resize(30, 0);
            bytes[26] = name.len() as u8;
            bytes.extend(name.as_bytes());
            bytes
        };
        check(&zip("archive/data.pkl"), "a PyTorch pickle");
        check(&zip("model.safetensors"), "a ZIP archive");
        check(&zip("")[..10], "a ZIP archive");
    }

    #[test]
    fn the_length_of_a_safetensors_header_is_no_magic_number() {
        for length in [0x0280_u64, 0x8b1f, 0xfeff] {
            check(&[&length.to_le_bytes()[..], b"{\"w\":"].concat(), "a safetensors file");
        }
        check(b"\xff\xff\xff\xff\xff\xff\xff\xff{", "binary data of an unknown format");
    }

    #[test]
    fn text_may_be_cut_inside_a_character() {
        check(&"é".as_bytes()[..1], "an empty file");
        check(&"aé".as_bytes()[..2], "text that begins with `a`");
    }

    proptest! {
        #[test]
        fn any_bytes_are_of_some_kind(bytes: Vec<u8>, magic in 0..MAGICS.len()) {
            let _ = (FileKind::of(&bytes).to_string(), FileKind::of(&bytes).hint());
            prop_assert_eq!(FileKind::of(&[MAGICS[magic].0, &bytes].concat()), MAGICS[magic].1.clone());
        }
    }
}
