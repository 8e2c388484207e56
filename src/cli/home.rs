//! `~` in paths: shells expand it in some places only, and never in a run file.

use std::{
    any::TypeId,
    error::Error,
    path::{Path, PathBuf},
};

use clap::builder::{OsStringValueParser, StringValueParser, TypedValueParser};

use crate::{app::Parsed, targets::Target};

/// A path whose `~` cannot be replaced.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HomeError {
    /// The path is in the home folder of another user.
    #[error("home folders of other users are not expanded: {0} (write `./{0}`, or the absolute path)")]
    OtherUser(String),
    /// The home folder is unknown.
    #[error("unknown home folder for `~`: {0} (set `HOME`, or write the absolute path)")]
    Unknown(String),
    /// The home folder cannot be part of a setting.
    #[error("the home folder for `~` is not UTF-8: {0}")]
    NotUtf8(String),
}

/// The user's home folder, for `~`.
#[derive(Clone, Debug)]
pub struct Home(pub Option<PathBuf>);

impl Home {
    /// The path with a leading `~` replaced.
    ///
    /// # Errors
    /// If there is no home folder, or it is not UTF-8, or the path begins with that of another user (`~name`).
    pub fn expand(&self, path: &str) -> Result<String, HomeError> {
        let Some(rest) = path.strip_prefix('~') else { return Ok(path.to_owned()) };
        let (user, below) = rest.split_once('/').map_or((rest, None), |(user, below)| (user, Some(below)));
        if !user.is_empty() {
            // A file name may begin with `~`; an existing one is taken literally.
            let first = Path::new(path).components().next();
            return match first.is_some_and(|first| Path::new(first.as_os_str()).exists()) {
                true => Ok(path.to_owned()),
                false => Err(HomeError::OtherUser(path.to_owned())),
            };
        }
        let home = self.0.as_ref().ok_or_else(|| HomeError::Unknown(path.to_owned()))?;
        let home = home.to_str().ok_or_else(|| HomeError::NotUtf8(path.to_owned()))?;
        Ok(below.map_or_else(|| home.to_owned(), |below| format!("{}/{below}", home.trim_end_matches('/'))))
    }

    /// The argument, expanding `~` in its value if that is a path or may be one.
    pub fn expand_in(&self, arg: clap::Arg) -> clap::Arg {
        let home = self.clone();
        match PathLike::of(&arg) {
            None => arg,
            Some(PathLike::Path) => {
                arg.value_parser(OsStringValueParser::new().try_map(move |path| match path.to_str() {
                    Some(text) => home.expand(text).map(PathBuf::from),
                    None => Ok(path.into()),
                }))
            }
            Some(PathLike::Name) => {
                arg.value_parser(StringValueParser::new().try_map(move |name| home.expand(&name)))
            }
            Some(PathLike::Target) => arg.value_parser(StringValueParser::new().try_map(move |target| {
                Ok::<_, Box<dyn Error + Send + Sync>>(home.expand(&target)?.parse::<Parsed<Target>>()?)
            })),
        }
    }
}

/// Arguments whose value is a path, or may be one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PathLike {
    /// A path.
    Path,
    /// The name of something known, or a path.
    Name,
    /// A target, or the path of a device file.
    Target,
}

impl PathLike {
    /// `None` if it cannot be a path.
    pub(super) fn of(arg: &clap::Arg) -> Option<Self> {
        let parsed = arg.get_value_parser().type_id();
        if parsed == TypeId::of::<PathBuf>() {
            Some(Self::Path)
        } else if parsed == TypeId::of::<Parsed<Target>>() {
            Some(Self::Target)
        } else {
            matches!(arg.get_id().as_str(), "model" | "plugin").then_some(Self::Name)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_leading_tilde_is_the_home_folder() {
        let home = Home(Some("/me/".into()));
        let check = |path: &str, expect: &str| assert_eq!(home.expand(path).unwrap(), expect);
        check("~", "/me/");
        check("~/", "/me/");
        check("~/models/a", "/me/models/a");
        check("a/~", "a/~");
        check("./~", "./~");
        check("out", "out");
        check("cpu:8", "cpu:8");
        let refused = |home: &Home, path: &str, expect: &str| {
            assert_eq!(home.expand(path).unwrap_err().to_string(), expect);
        };
        let expect =
            "home folders of other users are not expanded: ~bob/m (write `./~bob/m`, or the absolute path)";
        refused(&home, "~bob/m", expect);
        refused(
            &Home(None),
            "~/m",
            "unknown home folder for `~`: ~/m (set `HOME`, or write the absolute path)",
        );
    }
}
