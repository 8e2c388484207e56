use super::*;

#[track_caller]
fn check(text: &str, hosts: usize, devices: usize) {
    let target: Target = text.parse().unwrap_or_else(|error| panic!("{error}"));
    assert_eq!((target.shape().hosts(), target.shape().devices()), (hosts, devices), "{text}");
    assert!(target.to_string().starts_with(text), "{target}");
}

#[track_caller]
fn refuse(text: &str, message: &str, hint: &str) {
    let error = text.parse::<Target>().unwrap_err();
    assert_eq!((error.to_string().as_str(), error.hint().unwrap_or_default().as_str()), (message, hint));
}

#[test]
fn the_devices_that_are_built_in_are_right() {
    let names: Vec<&str> = devices().iter().map(|device| device.name.as_str()).collect();
    assert_eq!(names.len(), FILES.len());
    for device in devices() {
        assert_eq!(device.memory_bytes.is_none(), device.platform() == Platform::Cpu, "{}", device.name);
        // A product of a vector with a matrix is bound by memory on each of them, one of matrices is not.
        let ratio = device.peak_bf16 / device.memory_bandwidth;
        assert!((10..1000).contains(&ratio), "{}: {ratio}", device.name);
    }
    let mi300x = &devices()[1];
    assert_eq!((mi300x.name.as_str(), mi300x.memory_bytes), ("mi300x", Some(192 << 30)));
}

#[test]
fn targets_say_how_many_devices_stand_where() {
    check("cpu", 1, 1);
    check("cpu:8", 1, 8);
    check("mi300x:8", 1, 8);
    check("mi300x:4x8", 4, 32);
    check("rtx4090:2", 1, 2);
    check("v5e:1x1", 1, 1);
    check("v5e:2x4", 2, 8);
    check("v5p:4x4x4", 16, 64);
    check("tpu7x:2x2x1", 1, 8);
    check("v4:2x2x2", 2, 16);
    check("cuda:2", 1, 2);
    assert!("rocm".parse::<Target>().unwrap().device().is_none());
    assert_eq!("h100".parse::<Target>().unwrap().to_string(), "h100:1");
}

#[test]
fn targets_that_cannot_be_are_met_with_what_can() {
    refuse("mi300:8", "unknown target: mi300:8", "did you mean `mi300x`?");
    refuse("MI300X", "unknown target: MI300X", "did you mean `mi300x`?");
    refuse("cudo:2", "unknown target: cudo:2", "did you mean `cuda`?");
    refuse(
        "quantum:8",
        "unknown target: quantum:8",
        "targets are: cpu, mi300x, mi325x, mi355x, h100, h200, b200, rtx4090, v4, v5e, v5p, v6e, tpu7x, cuda, rocm, \
         tpu, or the file of a device, NAME.toml",
    );
    let hosts = "for example `h100:8`, or `h100:4x8` for four hosts of eight";
    for (shape, found) in
        [("0", "0"), ("4x", "4x"), ("2x2x2", "2x2x2"), ("-1", "-1"), ("99999999", "99999999")]
    {
        let message =
            format!("expected a number of devices, or hosts x devices after `h100:`, found: {found}");
        refuse(&format!("h100:{shape}"), &message, hosts);
    }
    refuse("cpu:2x4", "expected a number of devices after `cpu:`, found: 2x4", "for example `cpu:8`");
    refuse("v5e:8", "no such topology of v5e: 8", "there is v5e:2x4");
    refuse("v5p:3x3x3", "no such topology of v5p: 3x3x3", &format!("there is {}", all_of("v5p")));
    refuse("v5p", "expected a topology after `v5p`, found none", &format!("there is {}", all_of("v5p")));
    refuse(
        "no-such/file.toml:8",
        "cannot read device file: no-such/file.toml: No such file or directory (os error 2)",
        "",
    );
}

fn all_of(name: &str) -> String {
    let device = devices().iter().find(|device| device.name == name).unwrap();
    let Hardware::Tpu(info) = &device.hardware else { panic!("{name} is no TPU") };
    let names: Vec<String> = info.topologies.iter().map(|topology| format!("{name}:{topology}")).collect();
    names.join(", ")
}

#[test]
fn a_users_file_is_a_target_like_any_other() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("mine.toml");
    std::fs::write(&path, include_str!("mi300x.toml")).unwrap();
    let target: Target = format!("{}:2x4", path.display()).parse().unwrap();
    assert_eq!((target.to_string().as_str(), target.shape().devices()), ("mine:2x4", 8));
    assert_eq!(target.platform(), Platform::Rocm);
    assert_eq!(target.compile_options().num_partitions, 8);
}

#[test]
fn all_problems_of_a_file_show_with_their_lines() {
    let text = "product = \"A \\\"good\\\" one\"\nplatform = \"cuda\"\nmemory_bytes = \"80 GB\"\n\
                memory_bandwith = 1\npeak_bf16 = -3\n[gpu]\narchitecture = \"sm_90\"\nclock_rate_ghz = 0\n\
                colour = \"green\"\n[flags]\nxla_dump = [1]\n";
    let error = DeviceSpec::parse("mine", "mine.toml", text).unwrap_err().to_string();
    let lines: Vec<&str> = error.lines().filter(|line| !line.contains("a whole number above zero")).collect();
    assert_eq!(
        lines,
        [
            "mine.toml:1: `product`: expected a text of printable ASCII without quotes and backslashes, found: \
             \"A \\\"good\\\" one\"",
            "mine.toml:4: no such table or key: memory_bandwith",
            "  hint: did you mean `memory_bandwidth`?",
            "mine.toml:8: `clock_rate_ghz`: expected a number above zero, found: 0",
            "mine.toml:9: no such table or key: colour",
            "  hint: known here: architecture, clock_rate_ghz, core_count, fpus_per_core, threads_per_warp, \
             threads_per_block_limit, threads_per_core_limit, block_dim_limit_x, block_dim_limit_y, \
             block_dim_limit_z, registers_per_core_limit, registers_per_block_limit, shared_memory_per_core, \
             shared_memory_per_block, shared_memory_per_block_optin, l2_cache_size",
            "mine.toml:11: `xla_dump`: expected a text, a truth value or a number, found: [1]",
        ]
    );
    for expected in [
        "mine.toml: `memory_bandwidth` is missing: expected a whole number above zero",
        "mine.toml:3: `memory_bytes`: expected a whole number above zero, found: \"80 GB\"",
        "mine.toml:5: `peak_bf16`: expected a whole number above zero, found: -3",
        "mine.toml:6: `gpu`: `core_count` is missing: expected a whole number above zero",
    ] {
        assert!(error.lines().any(|line| line == expected), "{expected}\nin\n{error}");
    }
}

#[test]
fn a_file_without_its_tables_is_refused() {
    let error = |text: &str| DeviceSpec::parse("mine", "mine.toml", text).unwrap_err().to_string();
    let head = "product = \"One\"\nmemory_bytes = 1\nmemory_bandwidth = 1\npeak_bf16 = 1\n";
    assert_eq!(
        error(&format!("{head}platform = \"rocm\"\n")),
        "mine.toml: a table is missing: expected [gpu]"
    );
    assert_eq!(
        error(&format!("{head}platform = \"metal\"\n")),
        "mine.toml:5: `platform`: expected \"cpu\", \"cuda\", \"rocm\" or \"tpu\", found: \"metal\""
    );
    let tpu = "[tpu]\ngeneration = \"v9\"\ndevices_per_chip = 1\nchips_per_host = 4\ntopologies = [\"2x\"]\n";
    assert_eq!(
        error(&format!("{head}platform = \"tpu\"\n{tpu}")),
        "mine.toml:10: `topologies`: expected a list of topologies such as \"2x4\", at least one, found: [\"2x\"]"
    );
    assert!(error("product = ").starts_with("mine.toml:1: "));
}

#[test]
fn plugins_are_told_what_they_ask_for() {
    let options = |text: &str| {
        let target: Target = text.parse().unwrap();
        target.device().unwrap().topology_options(target.shape())
    };
    let (name, gpu) = options("mi300x:4x8").unwrap();
    assert_eq!((name.as_str(), &gpu[1].1), ("", &crate::pjrt::NamedValue::String("1x4x8".into())));
    let crate::pjrt::NamedValue::String(config) = &gpu[0].1 else { panic!("{gpu:?}") };
    for line in [
        "  core_count: 304",
        "  device_memory_size: 206158430208",
        "  clock_rate_ghz: 2.1",
        "  rocm_compute_capability { gcn_arch_name: \"gfx942:sramecc+:xnack-\" }",
        "platform_name: \"ROCM\"",
        "device_description_str: \"AMD Instinct MI300X\"",
    ] {
        assert!(config.lines().any(|found| found == line), "{line}\nin\n{config}");
    }
    let (_, gpu) = options("h100:8").unwrap();
    assert!(format!("{gpu:?}").contains("major: 9 minor: 0 feature_extension: ACCELERATED_FEATURES"));
    assert_eq!(options("v5p:4x4x4").unwrap(), ("v5p:4x4x4".into(), vec![]));
    assert_eq!(options("cpu:8"), None);
    assert_eq!("cpu:8".parse::<Target>().unwrap().client_options()[0].0, "cpu_device_count");
}

#[test]
fn a_finding_on_every_line_costs_linear_time() {
    let text: String = (0..40_000).map(|n| format!("k{n} = 0\n")).collect();
    let start = std::time::Instant::now();
    let error = DeviceSpec::parse("d", "d.toml", &text).unwrap_err();
    let elapsed = start.elapsed();
    assert!(error.to_string().contains("d.toml:40000: no such table or key: k39999"));
    // To count the lines before each diagnostic takes more than 20 seconds.
    assert!(elapsed.as_secs() < 10, "{elapsed:?}");
}
