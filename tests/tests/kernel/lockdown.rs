//! Tests of the agent on a kernel under confidentiality lockdown, where no program, not even root's, may read the
//! kernel's memory by helper.
//!
//! Such a kernel is booted for these tests alone: `cargo xtask test --vm`. Elsewhere they are listed as ignored.
#![expect(clippy::unwrap_used, reason = "tests panic: a returned error has no stack")]

use std::fs;

use e2e::confined::{ConfinedAgent, TWO_CAPABILITIES};
use headroom_agent::{
    kernel::probe::{Options, Probe},
    local::status::Status,
};
use headroom_proto::v1alpha1::Mode;

/// The file contains `none integrity [confidentiality]`: the bracketed word is in force.
fn assert_locked_down() {
    let state = fs::read_to_string("/sys/kernel/security/lockdown").unwrap();
    assert!(state.contains("[confidentiality]"), "{state}");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs a kernel that is locked down: cargo xtask test --vm"]
async fn agent_on_a_locked_down_kernel_has_all_signals_with_typed_programs() {
    assert_locked_down();
    let mut confined = ConfinedAgent::start(&TWO_CAPABILITIES).await;
    let status = confined.assert_mode(Mode::Full, &["no signal is missing"]).await;
    for program in &status.programs {
        assert_eq!(program.flavour.as_deref(), Some("typed"), "{program:?}");
    }
    let counts = |status: &Status| {
        status
            .measured
            .is_some_and(|measured| measured.switches_per_s > 0 && measured.cpu_busy_milli > 0)
    };
    confined
        .agent
        .status_until("a second with switches", counts)
        .await;
}

#[test]
#[ignore = "needs a kernel that is locked down: cargo xtask test --vm"]
fn raw_fallbacks_read_by_helper_and_are_refused_on_a_locked_down_kernel() {
    assert_locked_down();
    let raw = Options {
        typed: false,
        ..Options::default()
    };
    let error = Probe::load(&raw).map(drop).unwrap_err();
    let verdicts = error.verdicts();
    let switch = verdicts.last().unwrap();
    let log = switch.verifier_log.as_deref().unwrap();
    assert!(log.contains("bpf_probe_read"), "{switch:?}");
}
