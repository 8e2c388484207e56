use std::{fs, io, path::Path};

use super::FileKind;

/// Byte order mark of UTF-8.
const BYTE_ORDER_MARK: &[u8] = "\u{feff}".as_bytes();

/// A file that is not text in the expected format.
#[derive(Debug, thiserror::Error)]
#[error("expected {expected}, found {found}{}", hint(found))]
struct NotText {
    expected: &'static str,
    found: FileKind,
}

fn hint(found: &FileKind) -> String {
    found.hint().map(|hint| format!("\n  hint: {hint}")).unwrap_or_default()
}

/// Reads a text file without its byte order mark. `expected` is the format for errors, such as "TOML"; an empty file is an
/// empty text.
///
/// # Errors
/// The operating system's error, or [`io::ErrorKind::InvalidData`] with the format recognized, if the file is something
/// else, such as a web page.
pub(crate) fn read_text(path: &Path, expected: &'static str) -> io::Result<String> {
    let not_text = |found| wrong_format(expected, found);
    let accept = |found: &FileKind| found.is_text() || *found == FileKind::Empty;
    let bytes = read_text_bytes(path, accept)?.map_err(not_text)?;
    String::from_utf8(bytes).map_err(|_| not_text(FileKind::Binary))
}

/// The error of a file in another format than `expected`.
pub(crate) fn wrong_format(expected: &'static str, found: FileKind) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, NotText { expected, found })
}

/// Reads the bytes of a text file without its byte order mark. `Ok(Err(kind))` if the file was recognized as another format
/// that `accept` refuses.
///
/// # Errors
/// The operating system's error.
pub(crate) fn read_text_bytes(
    path: &Path,
    accept: impl Fn(&FileKind) -> bool,
) -> io::Result<Result<Vec<u8>, FileKind>> {
    let mut bytes = fs::read(path)?;
    let found = FileKind::of(&bytes);
    if !accept(&found) {
        return Ok(Err(found));
    }
    if bytes.starts_with(BYTE_ORDER_MARK) {
        bytes.drain(..BYTE_ORDER_MARK.len());
    }
    Ok(Ok(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_in_another_format_is_reported_with_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run.toml");
        let read = |content: &[u8]| {
            fs::write(&path, content).unwrap();
            read_text(&path, "TOML").map_err(|error| error.to_string())
        };
        assert_eq!(read(b"\xef\xbb\xbfa = 1"), Ok("a = 1".into()));
        assert_eq!(read(b""), Ok(String::new()));
        let refused = |content: &[u8], expect: &str| assert_eq!(read(content), Err(expect.to_owned()));
        refused(
            b"version https://git-lfs.github.com/spec/v1\n",
            "expected TOML, found a Git LFS pointer\n  hint: the repository was cloned without the content of its \
             large files: run `git lfs pull` in it",
        );
        refused(b"\xff\xfe\x00\xd8", "expected TOML, found text in UTF-16\n  hint: save it as UTF-8");
        refused(
            &[b"a = 1\n".repeat(300), vec![0xff]].concat(),
            "expected TOML, found binary data of an unknown format",
        );
    }
}
