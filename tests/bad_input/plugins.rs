//! Plugins that cannot be loaded, crash, exit or hang: small libraries in C, built where there is a compiler.

use std::{
    fs,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use hloom::testing::{CpuBuild, c_library, cpu_plugin_path, installed_package};

use crate::support::world::{World, until};

const COMMANDS: [&str; 4] = [
    "train --model model --data rows.jsonl --out out --quiet --plugin",
    "generate --model model --prompt hello --quiet --plugin",
    "parity --model model --adapter adapter --expected expected.safetensors --quiet --plugin",
    "plugin info",
];

/// A plugin's table of calls, and the functions that a case adds.
const TABLE: &str = "
    #include <stddef.h>
    #include <stdlib.h>
    #include <unistd.h>
    typedef struct {
        size_t size; void *extension;
        struct { size_t size; void *extension; int major, minor; } version;
        void *calls[200];
    } Api;
    enum { INITIALIZE = 3, CREATE = 10 };
    static void *succeed(void *args) { return NULL; }
";

/// Code that fills the table for API 0.115.
const FILL: &str = "static Api api = { sizeof api, NULL, { 0, NULL, 0, 115 } };\n\
                    api.calls[INITIALIZE] = succeed;\n";

struct Case {
    world: World,
    plugin: PathBuf,
}

impl Case {
    /// A plugin whose `GetPjrtApi` has this body, after `before`.
    fn new(before: &str, body: &str) -> Option<Self> {
        let world = World::new();
        let source = format!("{TABLE}\n{before}\nvoid *GetPjrtApi(void) {{ {body} }}\n");
        let folder = fs::canonicalize(world.path(".")).unwrap();
        let plugin = c_library(&folder, "plugin.so", &source, &[])?;
        Some(Self { world, plugin })
    }

    /// Checks the exit code and the beginning of what each of `commands` says; `P` stands for the plugin.
    #[track_caller]
    fn check(&self, commands: &[&str], code: i32, expect: &str) {
        let expect = expect.replace("P.so", self.plugin.to_str().unwrap());
        for command in commands {
            let begin = Instant::now();
            let ran = self.world.hloom(&format!("{command} ./plugin.so --timeout 3"));
            assert!(ran.err.starts_with(&format!("error: {expect}\n")), "{command}: {}", ran.err);
            assert_eq!((ran.code, ran.out.as_str()), (Some(code), ""), "{command}: {}", ran.err);
            assert!(begin.elapsed() < Duration::from_secs(60), "{command}");
        }
    }
}

#[track_caller]
fn check(before: &str, body: &str, code: i32, expect: &str) {
    let Some(case) = Case::new(before, body) else { return };
    case.check(&COMMANDS, code, expect);
}

/// Checks a plugin that is loaded in good order, and whose client fails to start.
#[track_caller]
fn check_client(before: &str, body: &str, expect: &str) {
    let body = format!("{FILL} {body} return &api;");
    let Some(case) = Case::new(before, &body) else { return };
    // `plugin info` starts none.
    case.check(&COMMANDS[..3], 3, expect);
}

#[test]
fn missing_symbols_and_libraries_are_reported() {
    check(
        "int nowhere(void);",
        "return nowhere() ? NULL : NULL;",
        3,
        "cannot load plugin: P.so: undefined symbol `nowhere`, which P.so uses",
    );
    let world = World::new();
    let folder = fs::canonicalize(world.path(".")).unwrap();
    let link = |name, options: &[&str]| {
        let options = [&["-L.", "-Wl,--no-as-needed", "-Wl,-rpath,$ORIGIN"], options].concat();
        c_library(&folder, name, "void *GetPjrtApi(void) { return 0; }", &options)
    };
    let Some(_) = link("libfar.so", &[]) else { return };
    link("libmiddle.so", &["-lfar"]).unwrap();
    let plugin = link("plugin.so", &["-lmiddle"]).unwrap();
    world.remove("libfar.so");
    let middle = folder.join("libmiddle.so");
    Case { world, plugin }.check(
        &COMMANDS,
        3,
        &format!(
            "cannot load plugin: P.so: missing library libfar.so, which {} links with",
            middle.display()
        ),
    );
}

#[test]
fn invalid_api_tables_are_refused() {
    check("", "return NULL;", 3, "broken PJRT plugin, `GetPjrtApi` returned a null pointer: P.so");
    let version = |major, minor| {
        let body =
            format!("static Api api = {{ sizeof api, NULL, {{ 0, NULL, {major}, {minor} }} }}; return &api;");
        check("", &body, 2, &format!("expected PJRT API 0.81 or a later 0.x, found {major}.{minor}: P.so"));
    };
    version(1, 2);
    version(0, 54);
    version(-1, -1);
    for size in [0, 16, 48] {
        let body = format!("static Api api = {{ {size}, NULL, {{ 0, NULL, 0, 115 }} }}; return &api;");
        let Some(case) = Case::new("", &body) else { return };
        let ran = case.world.hloom("plugin info ./plugin.so");
        assert_eq!(ran.code, Some(3), "{}", ran.err);
        let found = format!(" bytes, found a `struct_size` of {size}: ");
        assert!(ran.err.starts_with("error: expected a PJRT API table of at least "), "{}", ran.err);
        assert!(ran.err.contains(&found), "{}", ran.err);
    }
    check("", "return (void *)8;", 3, "the plugin crashed while loading (signal 11, segmentation fault)");
}

#[test]
fn plugins_that_exit_or_hang_while_loading_are_reported() {
    let constructor =
        |body: &str| format!("__attribute__((constructor)) static void begin(void) {{ {body} }}");
    let loads = |body: &str, expect: &str| check(&constructor(body), "return NULL;", 3, expect);
    loads("abort();", "the plugin crashed while loading (signal 6, aborted)");
    loads("_exit(0);", "the plugin ended its process with code 0 while loading");
    loads("_exit(7);", "the plugin ended its process with code 7 while loading");
    loads("pause();", "the plugin was stopped after 3 s while loading");
    loads(
        "write(2, \"no such device\\n\", 15); abort();",
        "the plugin crashed while loading (signal 6, aborted); the last it wrote:\n  no such device",
    );
    let initialize = |body: &str, expect: &str| {
        let before = format!("static void *initialize(void *args) {{ {body} return NULL; }}");
        check(&before, &format!("{FILL} api.calls[INITIALIZE] = initialize; return &api;"), 3, expect);
    };
    initialize(
        "*(volatile int *)0 = 1;",
        "the plugin crashed while initializing (signal 11, segmentation fault)",
    );
    initialize("pause();", "the plugin was stopped after 3 s while initializing");
}

#[test]
fn a_hanging_plugin_without_a_device_is_reported() {
    if ["/dev/accel0", "/dev/vfio/0"].iter().any(|file| Path::new(file).exists()) {
        return;
    }
    let before = "static void *initialize(void *args) { for (;;) pause(); }";
    let body = format!("{FILL} api.calls[INITIALIZE] = initialize; return &api;");
    let Some(case) = Case::new(before, &body) else { return };
    let ran = case.world.hloom(&format!("{} ./plugin.so --target tpu --timeout 2", COMMANDS[0]));
    assert_eq!(ran.code, Some(3), "{}", ran.err);
    assert!(ran.err.starts_with("error: found no TPU on this machine: no /dev/accel*, "), "{}", ran.err);
    let end = "; the plugin's answer: the plugin was stopped after 2 s while initializing\n\n\
               hint: run this on a machine that has one; `hloom compile --target v5e:2x4` needs no device\n";
    assert!(ran.err.ends_with(end), "{}", ran.err);
}

#[test]
fn failed_client_creation_is_reported() {
    check_client("", "", "plugin of PJRT API 0.115 does not implement a call: PJRT_Client_Create");
    check_client("", "api.calls[CREATE] = succeed;", "PJRT_Client_Create returned a null pointer");
    let creates = |body: &str, expect: &str| {
        let before = format!("static void *create(void *args) {{ {body} return NULL; }}");
        check_client(&before, "api.calls[CREATE] = create;", expect);
    };
    creates("abort();", "the plugin crashed while starting its client (signal 6, aborted)");
    creates("_exit(1);", "the plugin ended its process with code 1 while starting its client");
    creates("pause();", "the plugin was stopped after 3 s while starting its client");
}

#[test]
fn errors_without_a_message_are_reported() {
    let refuse = "static void *refuse(void *args) { return (void *)8; }";
    let expect = "PJRT_Plugin_Initialize failed with UNKNOWN: no message";
    check(refuse, &format!("{FILL} api.calls[INITIALIZE] = refuse; return &api;"), 3, expect);
    check_client(refuse, "api.calls[CREATE] = refuse;", "PJRT_Client_Create failed with UNKNOWN: no message");
}

#[test]
fn a_plugin_for_another_platform_is_refused() {
    let world = World::new();
    let plugin = fs::canonicalize(cpu_plugin_path(CpuBuild::Pinned)).unwrap();
    let plugin = plugin.display();
    world.refuses(
        &format!("{} {plugin} --target tpu", COMMANDS[0]),
        &format!(
            "error: expected a plugin for tpu, found one for cpu: {plugin}\n\n\
             hint: use the target `cpu`, or a plugin for tpu\n"
        ),
    );
    let ran = world.hloom(&format!("{} {plugin} --target h100", COMMANDS[0]));
    let hint =
        "\nhint: the plugin is probably for another platform than the target: set a target of its platform\n";
    assert!(ran.code == Some(3) && ran.err.ends_with(hint), "{}", ran.err);
    let Some(plugin) = installed_package("tpu") else { return };
    let ran = world.hloom(&format!("{} {} --target cpu", COMMANDS[0], plugin.display()));
    assert_eq!(ran.code, Some(3), "{}", ran.err);
    assert!(ran.err.starts_with("error: PJRT_Client_Create failed with "), "{}", ran.err);
}

#[test]
fn a_timeout_of_zero_is_refused() {
    let world = World::new();
    for command in COMMANDS {
        world.refuses(
            &format!("{command} ./plugin.so --timeout 0"),
            "error: --timeout: expected a number of seconds above zero, found: 0\n\n\
             hint: for example `--timeout 600`\n",
        );
    }
}

#[test]
#[cfg(target_os = "linux")]
fn a_plugin_that_hangs_does_not_outlive_a_killed_parent() {
    let note = "FILE *file = fopen(\"pid.part\", \"w\"); fprintf(file, \"%d\", getpid()); fclose(file);\n\
                rename(\"pid.part\", \"pid\"); for (;;) pause();";
    let before = format!("#include <stdio.h>\nstatic void *initialize(void *args) {{ {note} }}");
    let body = format!("{FILL} api.calls[INITIALIZE] = initialize; return &api;");
    let Some(case) = Case::new(&before, &body) else { return };
    let command = COMMANDS[0];
    fs::create_dir(case.world.path("tmp")).unwrap();
    let mut parent = case.world.command(&format!("{command} ./plugin.so"));
    let mut parent = parent.env("TMPDIR", case.world.path("tmp")).spawn().unwrap();
    until("the plugin is initialized", || case.world.path("pid").exists());
    let child = String::from_utf8(case.world.read("pid")).unwrap();
    let process = Path::new("/proc").join(&child);
    assert!(process.exists());
    assert_ne!(child, parent.id().to_string());
    // SIGKILL, which leaves no time to stop the child.
    parent.kill().unwrap();
    parent.wait().unwrap();
    let ended = || {
        let status = fs::read_to_string(process.join("stat")).unwrap_or_default();
        status.is_empty() || status.contains(") Z ")
    };
    until("the child has ended", ended);
    assert_eq!(case.world.names("tmp"), [""; 0]);
}
