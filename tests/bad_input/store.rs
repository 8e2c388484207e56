//! Packages that cannot be fetched: no Python, no pip, no network, another file, a partial download.

use std::{
    fs,
    os::unix::fs::symlink,
    path::Path,
    process::{Command, Stdio},
    time::Duration,
};

use crate::support::world::{World, until};

const INSTALL: &str = "plugin install cpu --quiet";
const REQUIREMENT: &str = "lammps-jax-pjrt-cpu==";

/// Leaves a whole wheel that is not the pinned one.
const WRONG: &str = "mkdir -p \"${folder:?}\"; echo wrong > \"$folder/demo.whl\"";
/// Leaves what pip would while it downloads.
const HALF: &str = "mkdir -p \"${folder:?}\"; echo half > \"$folder/demo.whl\"; echo half > \"$TMPDIR/part\"";

/// A world with an empty store and a Python that does what a script says.
struct Fetching {
    world: World,
}

impl Fetching {
    fn new() -> Self {
        let world = World::new();
        fs::create_dir(world.path("bin")).unwrap();
        let python = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/store/testdata/fake-python");
        symlink(python, world.path("bin/python3")).unwrap();
        Self { world }
    }

    fn behave(&self, script: &str) {
        self.world.write("bin/behaviour.sh", script);
    }

    fn command(&self, line: &str) -> Command {
        let path = std::env::var("PATH").unwrap();
        let mut command = self.world.command(line);
        command.env("HLOOM_STORE", "store");
        command.env("PATH", format!("{}:{path}", self.world.path("bin").display()));
        command
    }

    /// Checks what an installation with a Python of a certain behaviour fails with, and that it leaves nothing.
    #[track_caller]
    fn check(&self, behaviour: &str, expect: &[&str]) {
        self.behave(behaviour);
        let output = self.command(INSTALL).output().unwrap();
        let err = String::from_utf8(output.stderr).unwrap();
        assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(2), &b""[..]));
        assert!(err.starts_with(expect[0]), "{err}");
        expect.iter().for_each(|part| assert!(err.contains(part), "{err}"));
        self.check_empty();
    }

    #[track_caller]
    fn check_empty(&self) {
        assert_eq!(self.world.names("store"), [".cpu.lock"]);
    }
}

#[test]
fn nothing_is_fetched_offline() {
    let world = World::new();
    let refuses = |line: &str, key: &str| {
        let mut command = world.command(line);
        // Without a Python, which may have the plugin.
        command.env("HLOOM_STORE", "store").env("PATH", world.path("model"));
        world.refuses_command(
            &mut command,
            &format!(
                "error: package is not installed, and downloads are not allowed: {key}\n\n\
                 hint: run once without --offline, on a machine with a network\n"
            ),
        );
    };
    refuses("train --offline --quiet", "smollm2");
    refuses("train --offline --quiet --model model --data rows.jsonl --out out", "cpu");
    refuses("generate --offline --quiet --model model --prompt hello", "cpu");
}

#[test]
fn a_missing_python_is_reported() {
    let world = World::new();
    let output =
        world.command(INSTALL).env("HLOOM_STORE", "store").env("PATH", world.path("model")).output().unwrap();
    let expect = "error: cannot find Python: python3\n\n\
                  hint: install Python 3 with pip, so that `python3` is found in PATH\n";
    assert_eq!(String::from_utf8(output.stderr).unwrap(), expect);
    assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(2), &b""[..]));
    assert_eq!(world.names("store"), [".cpu.lock"]);
}

#[test]
fn a_missing_pip_is_reported() {
    Fetching::new().check(
        "echo 'python3: No module named pip' >&2; exit 1",
        &["error: Python has no pip: python3\n\nhint: install pip: `python3 -m ensurepip`, or your system's package \
           python3-pip\n"],
    );
}

#[test]
fn an_unreachable_package_index_is_reported() {
    Fetching::new().check(
        "echo 'WARNING: Retrying after connection broken by NewConnectionError(<x>: Network is unreachable)' >&2; exit 1",
        &[
            "error: pip cannot reach a package index to download ",
            REQUIREMENT,
            "\n\nhint: check the network, and pip's index, proxy and certificates: `python3 -m pip config list`\n",
        ],
    );
}

#[test]
fn a_download_with_another_digest_is_refused() {
    Fetching::new().check(
        WRONG,
        &[
            "error: expected SHA-256 ",
            REQUIREMENT,
            "\n\nhint: the downloaded file was discarded; try again, or check pip's index: `python3 -m pip config list`\n",
        ],
    );
}

#[test]
fn an_interrupted_download_is_discarded() {
    let fetching = Fetching::new();
    fetching.check(
        &format!("{HALF}; kill -9 $$"),
        &["error: pip failed to download ", REQUIREMENT, "no message\n"],
    );
    fetching.check(WRONG, &["error: expected SHA-256 "]);
}

#[test]
fn a_killed_installation_leaves_no_files() {
    let fetching = Fetching::new();
    fetching.behave(&format!("{HALF}; touch \"$here/half\"; exec sleep 2"));
    let mut command = fetching.command(INSTALL);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    until("half the file is there", || fetching.world.path("bin/half").exists());
    child.kill().unwrap();
    child.wait().unwrap();

    let list = fetching.command("plugin list --json").output().unwrap();
    let list: serde_json::Value = serde_json::from_slice(&list.stdout).unwrap();
    assert_eq!(
        (&list["packages"][0]["name"], &list["packages"][0]["installed"]),
        (&"cpu".into(), &false.into())
    );
    fetching.check(WRONG, &["error: expected SHA-256 "]);
    // What the killed one started is still running; it must not bring anything back.
    std::thread::sleep(Duration::from_millis(2200));
    fetching.check_empty();
}

#[test]
fn a_store_that_is_a_file_is_refused() {
    let world = World::new();
    let mut command = world.command(INSTALL);
    command.env("HLOOM_STORE", "rows.jsonl");
    world.refuses_command(
        &mut command,
        "error: cannot use rows.jsonl\n  caused by: File exists (os error 17)\n",
    );
}
