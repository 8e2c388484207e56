use std::io;
use std::path::PathBuf;

/// Why a child compiled nothing.
#[derive(Debug, thiserror::Error)]
pub enum ChildError {
    /// The folder for request and answer cannot be used.
    #[error("cannot use {}", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The program could not be started.
    #[error("cannot start {}", program.display())]
    Start {
        /// The program.
        program: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The plugin, or what prepares it, refused in good order.
    #[error("{message}")]
    Refused {
        /// Why.
        message: String,
        /// What can be done about it.
        hint: Option<String>,
    },
    /// The program needs more memory than the devices have, by the compiler's count.
    #[error("{message}")]
    TooLarge {
        /// The plugin's own words.
        message: String,
        /// What can be done about it.
        hint: Option<String>,
    },
    /// The system took the child's memory away, or gave it none.
    #[error("this machine has too little memory to compile it{}", words(last))]
    OutOfMemory {
        /// The last lines that the child wrote.
        last: Vec<String>,
    },
    /// A signal ended the child.
    #[error("the plugin crashed while it compiled (signal {signal}, {name}){}", words(last))]
    Crashed {
        /// The signal's number.
        signal: i32,
        /// The signal's name.
        name: &'static str,
        /// The last lines that the child wrote.
        last: Vec<String>,
    },
    /// The child ended by itself and left no answer.
    #[error("the process that compiled ended with code {code} and no answer{}", words(last))]
    Exited {
        /// Its exit code.
        code: i32,
        /// The last lines that the child wrote.
        last: Vec<String>,
    },
    /// The child took too long and was stopped.
    #[error("compiling took longer than {seconds} s and was stopped{}", words(last))]
    TimedOut {
        /// The time it had.
        seconds: f64,
        /// The last lines that the child wrote.
        last: Vec<String>,
    },
    /// The child's answer makes no sense.
    #[error("the process that compiled gave a broken answer: {reason}")]
    Broken {
        /// What is wrong with it.
        reason: String,
    },
}

impl ChildError {
    /// What the user can do about it, where that is known.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Refused { hint, .. } | Self::TooLarge { hint, .. } => hint.clone(),
            Self::OutOfMemory { .. } => {
                Some("compile on a machine with more memory, or one program at a time".into())
            }
            Self::TimedOut { .. } => Some("allow more with `--timeout`".into()),
            Self::Crashed { .. } => Some(
                "plugins crash on modules or flags that they do not expect: try without flags of your own, or the \
                 other partitioner"
                    .into(),
            ),
            Self::Io { .. } | Self::Start { .. } | Self::Exited { .. } | Self::Broken { .. } => None,
        }
    }
}

/// The last lines as the end of a message.
fn words(last: &[String]) -> String {
    match last {
        [] => String::new(),
        lines => format!("; the last it wrote:\n  {}", lines.join("\n  ")),
    }
}
