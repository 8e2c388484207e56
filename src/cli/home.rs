//! `~` in paths: shells expand it in some places only, and never in a run file.

use std::{
    any::TypeId,
    path::{Path, PathBuf},
};

use clap::builder::{OsStringValueParser, StringValueParser, TypedValueParser};

use crate::{app::Parsed, targets::Target};

/// The user's home folder, for `~`.
#[derive(Clone, Debug)]
pub struct Home(pub Option<PathBuf>);

impl Home {
    /// The path with a leading `~` replaced.
    ///
    /// # Errors
    /// If there is no home folder, or another user's is meant (`~name`).
    pub fn expand(&self, path: &str) -> Result<String, String> {
        let Some(rest) = path.strip_prefix('~') else { return Ok(path.to_owned()) };
        let (user, below) = rest.split_once('/').map_or((rest, None), |(user, below)| (user, Some(below)));
        if !user.is_empty() {
            // A file name may begin with `~`; an existing one is taken literally.
            let first = Path::new(path).components().next();
            return match first.is_some_and(|first| Path::new(first.as_os_str()).exists()) {
                true => Ok(path.to_owned()),
                false => Err(format!(
                    "home folders of other users are not expanded: {path} (write `./{path}`, or the absolute path)"
                )),
            };
        }
        let home = self.0.as_ref().ok_or_else(|| format!("no home folder is known for `~`: {path}"))?;
        let home = home.to_str().ok_or_else(|| format!("the home folder is not UTF-8: {path}"))?;
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
            Some(PathLike::Target) => arg.value_parser(
                StringValueParser::new()
                    .try_map(move |target| home.expand(&target)?.parse::<Parsed<Target>>()),
            ),
        }
    }
}

/// Arguments whose value is a path, or may be one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathLike {
    /// A path.
    Path,
    /// The name of something known, or a path.
    Name,
    /// A target, or the path of a device file.
    Target,
}

impl PathLike {
    /// `None` if it cannot be a path.
    pub fn of(arg: &clap::Arg) -> Option<Self> {
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
        let check = |path: &str, expect: &str| assert_eq!(home.expand(path).as_deref(), Ok(expect));
        check("~", "/me/");
        check("~/", "/me/");
        check("~/models/a", "/me/models/a");
        check("a/~", "a/~");
        check("./~", "./~");
        check("out", "out");
        check("cpu:8", "cpu:8");
        let refused = |home: &Home, path: &str, expect: &str| {
            assert_eq!(home.expand(path), Err(expect.to_owned()));
        };
        let expect =
            "home folders of other users are not expanded: ~bob/m (write `./~bob/m`, or the absolute path)";
        refused(&home, "~bob/m", expect);
        refused(&Home(None), "~/m", "no home folder is known for `~`: ~/m");
    }
}
