use std::{fs, io, path::Path};

use super::FileKind;

/// Why a file holds no text that a person wrote.
#[derive(Debug, thiserror::Error)]
#[error("expected {expected}, found {found}{}", hint(found))]
struct NotText {
    expected: &'static str,
    found: FileKind,
}

fn hint(found: &FileKind) -> String {
    found.hint().map(|hint| format!("\n  hint: {hint}")).unwrap_or_default()
}

/// The text of a file that `expected` names, such as "TOML". A byte order mark at its beginning is no part of it; an empty
/// file is an empty text.
///
/// # Errors
/// The operating system's error, or one of kind [`io::ErrorKind::InvalidData`] that says what the file seems to be if that
/// is something else, such as a web page.
pub fn read_text(path: &Path, expected: &'static str) -> io::Result<String> {
    let bytes = fs::read(path)?;
    let not_text = |found| io::Error::new(io::ErrorKind::InvalidData, NotText { expected, found });
    match FileKind::of(&bytes) {
        FileKind::Empty | FileKind::Json | FileKind::Text(_) => {}
        other => return Err(not_text(other)),
    }
    let text = String::from_utf8(bytes).map_err(|_| not_text(FileKind::Binary))?;
    Ok(text.strip_prefix('\u{feff}').map(str::to_owned).unwrap_or(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_text_is_named() {
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
