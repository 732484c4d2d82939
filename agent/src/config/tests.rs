//! Tests of the configuration file: its keys, the precedence of flag, file and default, and the keys that need a
//! restart.

use std::{ffi::OsString, fs};

use super::*;
use crate::kernel::btf::VMLINUX;

fn read(text: &str) -> Result<File, ConfigError> {
    config::parse(text, Path::new("a.yaml"))
}

fn args(flags: &str) -> Args {
    let needed = "headroom-agent --node-name n --ca-file c --token-file t ";
    let flags = [needed, flags].concat();
    Args::read(flags.split_whitespace().map(OsString::from)).unwrap()
}

#[test]
fn the_example_in_the_manual_has_every_key() {
    let manual =
        fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/configuration.md")).unwrap();
    let (_, rest) = manual.split_once("```yaml\n# headroom-agent --config").unwrap();
    let (example, _) = rest.split_once("```").unwrap();
    let File {
        log_filter: Some(log_filter),
        publish_fanout: Some(Fanout(2)),
        webhook_addr: Some(Servers(webhook_addr)),
        source: Some(CpuSourceChoice::Auto),
        btf: Some(btf),
        margin_calibration: Some(MarginCalibration::On),
        eviction_hard_memory: Some(eviction),
        program_stats: Some(false),
    } = read(&format!("#{example}")).unwrap()
    else {
        panic!("a key is missing in {example}");
    };
    assert_eq!(eviction, Eviction::default());
    assert_eq!(btf, Path::new(VMLINUX));
    assert_eq!(log_filter.to_string(), "info,headroom_agent=debug");
    assert_eq!(
        webhook_addr[0].to_string(),
        "headroom-hints.headroom-system.svc:9444"
    );
}

#[test]
fn a_flag_wins_over_the_file_and_the_file_over_the_default() {
    let file = read("publishFanout: 5\nlogFilter: debug\nwebhookAddr: [a.svc]\n").unwrap();
    let settings = Settings::resolve(&args("--publish-fanout 2"), &file);
    assert_eq!(
        (settings.publish_fanout, settings.log_filter.to_string().as_str()),
        (2, "debug")
    );
    assert_eq!(settings.webhook_addr, ["a.svc".parse().unwrap()]);
    let alone = Settings::resolve(&args(""), &read("{}").unwrap());
    assert_eq!(
        (
            alone.publish_fanout,
            alone.source,
            alone.margin_calibration,
            alone.program_stats
        ),
        (3, CpuSourceChoice::Auto, MarginCalibration::On, false)
    );
}

#[test]
fn a_flag_with_the_value_of_its_default_wins_too() {
    let file = read("publishFanout: 5\n").unwrap();
    assert_eq!(
        Settings::resolve(&args("--publish-fanout 3"), &file).publish_fanout,
        3
    );
}

#[test]
fn invalid_values_are_refused_with_their_path() {
    for (text, reason) in [
        ("fanout: 2", "fanout: unknown field `fanout`"),
        ("publishFanout: 0", "publishFanout: 0 is outside 1..16"),
        ("publishFanout: 300", "publishFanout: 300 is outside 1..16"),
        ("webhookAddr: []", "webhookAddr: names no server"),
        (
            "webhookAddr: [a, 'b:x']",
            "webhookAddr[1]: \"b:x\" is not a host or host:port",
        ),
        ("logFilter: inof", "logFilter: log filter \"inof\""),
        ("source: kprobe", "source: unknown variant `kprobe`"),
        (
            "marginCalibration: maybe",
            "marginCalibration: unknown variant `maybe`",
        ),
        (
            "evictionHardMemory: 5 %",
            "evictionHardMemory: \"5 %\" is neither a quantity",
        ),
        ("programStats: 1", "programStats: "),
    ] {
        let refusal = read(text).unwrap_err().to_string();
        assert!(refusal.contains(reason), "{refusal}");
    }
}

#[test]
fn keys_that_need_a_restart_are_named() {
    let settings = |text| Settings::resolve(&args(""), &read(text).unwrap());
    let known = settings("{}");
    assert_eq!(
        known.waiting(&settings(
            "publishFanout: 4\nlogFilter: debug\nmarginCalibration: off\nevictionHardMemory: 5%\n"
        )),
        [""; 0]
    );
    assert_eq!(
        known.waiting(&settings("source: procfs\nbtf: /a/btf\nprogramStats: true\n")),
        ["source", "btf", "programStats"]
    );
    let flags = Settings::resolve(&args("--source procfs"), &read("source: ebpf\n").unwrap());
    assert_eq!(
        flags.source,
        CpuSourceChoice::Procfs,
        "a flag hides what the file says"
    );
}
