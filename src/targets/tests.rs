use super::{
    builtin::{FILES, devices},
    device::{DeviceSpec, Hardware},
    platform::Platform,
    shape::TargetShape,
    target::Target,
};
use crate::pjrt::NamedValue;

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
fn built_in_devices_are_valid() {
    let names: Vec<&str> = devices().iter().map(|device| device.name.as_str()).collect();
    assert_eq!(names.len(), FILES.len());
    for device in devices() {
        assert_eq!(device.memory_bytes.is_none(), device.platform() == Platform::Cpu, "{}", device.name);
        // On each of them a vector-matrix product is bound by memory, a large matrix product is not.
        let ratio = device.peak_bf16 / device.memory_bandwidth;
        assert!((10..1000).contains(&ratio), "{}: {ratio}", device.name);
    }
    let mi300x = &devices()[1];
    assert_eq!((mi300x.name.as_str(), mi300x.memory_bytes), ("mi300x", Some(192 << 30)));
}

#[test]
fn targets_have_devices_and_hosts() {
    check("cpu", 1, 1);
    check("cpu:8", 1, 8);
    check("mi300x:8", 1, 8);
    check("mi300x:4x8", 4, 32);
    check("rtx4090:2", 1, 2);
    check("v5e:1x1", 1, 1);
    check("v5e:2x4", 2, 8);
    check("v5p:4x4x4", 16, 64);
    check("tpu7x:2x2x1", 1, 8);
    check("v4:2x2x2", 2, 8);
    check("cuda:2", 1, 2);
    assert!("rocm".parse::<Target>().unwrap().device().is_none());
    assert_eq!("h100".parse::<Target>().unwrap().to_string(), "h100:1");
}

#[test]
fn invalid_targets_have_hints() {
    refuse("mi300:8", "unknown target: mi300:8", "did you mean `mi300x`?");
    refuse("MI300X", "unknown target: MI300X", "did you mean `mi300x`?");
    refuse("cudo:2", "unknown target: cudo:2", "did you mean `cuda`?");
    refuse(
        "quantum:8",
        "unknown target: quantum:8",
        "targets: cpu, mi300x, mi325x, mi355x, mi300a, mi250x, h100, h200, b200, b300, gb200, a100-40, a100-80, l40s, \
         a6000, rtx4090, rtx3090, v4, v5e, v5p, v6e, tpu7x, cuda, rocm, tpu, a device file NAME.toml",
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
    refuse("v5e:8", "unknown topology of v5e: 8", "topologies of that size: v5e:2x4");
    refuse("v5p:3x3x3", "unknown topology of v5p: 3x3x3", &format!("topologies: {}", all_of("v5p")));
    refuse("v5p", "expected a topology after `v5p`, found none", &format!("topologies: {}", all_of("v5p")));
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
fn a_user_s_device_file_is_a_target() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("mine.toml");
    std::fs::write(&path, include_str!("mi300x.toml")).unwrap();
    let target: Target = format!("{}:2x4", path.display()).parse().unwrap();
    assert_eq!((target.to_string().as_str(), target.shape().devices()), ("mine:2x4", 8));
    assert_eq!(target.platform(), Platform::Rocm);
    assert_eq!(target.compile_options().num_partitions, 8);
}

#[test]
fn all_problems_of_a_file_are_reported_with_their_lines() {
    let text = "product = \"A \\\"good\\\" one\"\nplatform = \"cuda\"\nmemory_bytes = \"80 GB\"\n\
                memory_bandwith = 1\npeak_bf16 = -3\n[gpu]\narchitecture = \"sm_90\"\nclock_rate_ghz = 0\n\
                colour = \"green\"\n[flags]\nxla_dump = [1]\n";
    let error = DeviceSpec::parse(text, "mine.toml").unwrap_err().to_string();
    let lines: Vec<&str> = error.lines().filter(|line| !line.contains("an integer above zero")).collect();
    assert_eq!(
        lines,
        [
            "mine.toml:1: `product`: expected a string of printable ASCII without quotes or backslashes, found: \
             \"A \\\"good\\\" one\"",
            "mine.toml:4: unknown key: memory_bandwith",
            "  hint: did you mean `memory_bandwidth`?",
            "mine.toml:7: `architecture`: expected a compute capability such as \"9.0\" or \"9.0a\", found: \"sm_90\"",
            "mine.toml:8: `clock_rate_ghz`: expected a number above zero, found: 0",
            "mine.toml:9: unknown key: colour",
            "  hint: known keys: architecture, name, clock_rate_ghz, core_count, fpus_per_core, threads_per_warp, \
             threads_per_block_limit, threads_per_core_limit, block_dim_limit_x, block_dim_limit_y, \
             block_dim_limit_z, registers_per_core_limit, registers_per_block_limit, shared_memory_per_core, \
             shared_memory_per_block, shared_memory_per_block_optin, l2_cache_size, interconnect_links, \
             pcie_bandwidth, matrix_units",
            "mine.toml:11: `xla_dump`: expected a string, true or false, or a number, found: [1]",
        ]
    );
    for expected in [
        "mine.toml: missing key `memory_bandwidth`: expected an integer above zero",
        "mine.toml:3: `memory_bytes`: expected an integer above zero, found: \"80 GB\"",
        "mine.toml:5: `peak_bf16`: expected an integer above zero, found: -3",
        "mine.toml:6: `gpu`: missing key `core_count`: expected an integer above zero",
    ] {
        assert!(error.lines().any(|line| line == expected), "{expected}\nin\n{error}");
    }
}

#[test]
fn a_file_without_its_tables_is_rejected() {
    let error = |text: &str| DeviceSpec::parse(text, "mine.toml").unwrap_err().to_string();
    let head = "product = \"One\"\nmemory_bytes = 1\nmemory_bandwidth = 1\npeak_bf16 = 1\n";
    assert_eq!(error(&format!("{head}platform = \"rocm\"\n")), "mine.toml: missing table: [gpu]");
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
fn topology_options_describe_the_devices() {
    let options = |text: &str| {
        let target: Target = text.parse().unwrap();
        target.device().unwrap().topology_options(target.shape())
    };
    let (name, gpu) = options("mi300x:4x8").unwrap();
    assert_eq!((name.as_str(), &gpu[1].1), ("", &NamedValue::String("1x4x8".into())));
    let NamedValue::String(config) = &gpu[0].1 else { panic!("{gpu:?}") };
    for line in [
        "  core_count: 304",
        "  device_memory_size: 206158430208",
        "  clock_rate_ghz: 2.1",
        "  rocm_compute_capability { gcn_arch_name: \"gfx942:sramecc+:xnack-\" }",
        "platform_name: \"ROCM\"",
        "  name: \"AMD Instinct MI300X\"",
        "  pcie_bandwidth: 63015384615",
        "  device_interconnect_info { active_links: 7 }",
        "    rate_infos { key: 16 value { clock_rate_ghz: 2.1 units_per_core: 4 ops_per_clock: 256 } }",
        "device_description_str: \"AMD Instinct MI300X\"",
    ] {
        assert!(config.lines().any(|found| found == line), "{line}\nin\n{config}");
    }
    let (_, gpu) = options("h100:8").unwrap();
    let config = format!("{gpu:?}");
    assert!(config.contains("major: 9 minor: 0 feature_extension: ACCELERATED_FEATURES"));
    assert!(config.contains("dnn_version:") && !config.contains("dnn_version_info"), "{config}");
    assert!(config.contains("active_links: 18") && config.contains("runtime_version:"), "{config}");
    // GPUs without links to others, and device files that leave out the optional keys.
    assert!(!format!("{:?}", options("rtx4090:2")).contains("device_interconnect_info"));
    let text =
        include_str!("l40s.toml").replace("pcie_bandwidth", "#").replace("[gpu.matrix_units]", "[flags.x]");
    let text = text.replace("name = \"NVIDIA L40S\"", "").split("[flags.x]").next().unwrap().to_owned();
    let bare = DeviceSpec::parse(&text, "bare.toml").unwrap();
    let config = format!("{:?}", bare.topology_options(&TargetShape::one()));
    assert!(config.contains("name: \\\"NVIDIA L40S\\\"") && !config.contains("matrix_unit"), "{config}");
    let wrap =
        |name: &str, wrap: [i64; 3]| (name.to_owned(), vec![("wrap", NamedValue::Int64List(wrap.into()))]);
    assert_eq!(options("v5p:4x4x4").unwrap(), wrap("v5p:4x4x4", [1, 1, 1]));
    assert_eq!(options("v5p:2x4x4").unwrap(), wrap("v5p:2x4x4", [0, 0, 0]));
    assert_eq!(options("v5e:8x16").unwrap(), wrap("v5e:8x16", [0, 1, 0]));
    let (name, v4) = options("v4:2x2x1").unwrap();
    assert_eq!(
        (name.as_str(), &v4[0]),
        ("v4:2x2x1", &("chip_config_name", NamedValue::String("megacore".into())))
    );
    assert_eq!(options("cpu:8"), None);
    assert_eq!("cpu:8".parse::<Target>().unwrap().client_options()[0].0, "cpu_device_count");
}

#[test]
fn an_unknown_key_on_every_line_costs_linear_time() {
    let text: String = (0..40_000).map(|n| format!("k{n} = 0\n")).collect();
    let start = std::time::Instant::now();
    let error = DeviceSpec::parse(&text, "d.toml").unwrap_err();
    let elapsed = start.elapsed();
    assert!(error.to_string().contains("d.toml:40000: unknown key: k39999"));
    // Counting the lines before each diagnostic takes more than 20 seconds.
    assert!(elapsed.as_secs() < 10, "{elapsed:?}");
}
