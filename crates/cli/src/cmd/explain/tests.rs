//! Tests of `explain`: verdicts, pages with and without the derivation, and JSON.

use headroom_domain::policy::{InForce, Mode, Policy, Source};
use headroom_proto::v1alpha1 as wire;
use insta::assert_snapshot;

use super::*;
use crate::{
    check::{Finding, Severity},
    output::tests::{in_force, others, status},
};

fn page(node: &NodeView, has_derivation: bool) -> String {
    Explanation {
        node,
        has_derivation,
        next_write: NextWrite::IsDecided,
    }
    .to_string()
}

fn node(status: wire::NodeStatus) -> NodeView {
    status.try_into().unwrap()
}

/// The worked example, its memory with a reason of a newer webhook.
fn example() -> NodeView {
    let mut status = status("worker-1");
    status.allocatable = Some(wire::Amounts {
        cpu_milli: 31_500,
        memory_bytes: 118 << 30,
    });
    status.rules_memory[1].why.push("from-a-newer-webhook".to_owned());
    node(status)
}

#[test]
fn a_page_has_the_verdicts_first_and_reasons_as_text() {
    assert_snapshot!(page(&example(), false));
}

#[test]
fn with_why_each_number_is_derived() {
    assert_snapshot!(page(&example(), true));
}

#[test]
fn json_has_verdict_rules_derivation_and_report() {
    let value = explanation_json(&example(), NextWrite::IsDecided);
    assert_snapshot!(format!("{:#}", value["rules_mem"][1]), @r#"
    {
      "bytes": null,
      "ratio_nano": 1000000000,
      "rule": "ratio",
      "why": [
        "hint",
        "clamped-max",
        "from-a-newer-webhook"
      ]
    }
    "#);
    assert_eq!(value["derivation_cpu"]["slack_milli"], 9100);
    assert_eq!(value["derivation_mem"]["safe_bytes"], (118_u64 << 30) * 9 / 10);
    let expected = json!({"name": "run-queue-p99", "unit": "us", "value": 850});
    assert_eq!(value["hint"]["signals"][1], expected);
    assert_eq!(value["policy_refused"], Value::Null);
    let of_resource = |max: u32| json!({"min_cents": 100, "max_cents": max, "target_ppm": 900_000, "static_max_cents": 500});
    let policy = json!({
        "mode": "auto", "mode_from": "entry", "entry": "batch", "floor": "requests", "annotations": "all",
        "cpu": of_resource(200), "memory": of_resource(100),
    });
    assert_eq!(value["policy"], policy);
    let verdict = value["verdict_cpu"].as_str().unwrap();
    assert!(
        verdict.starts_with("worker-1 offers 31,500m of 31,500m cpu (1.00). ")
            && verdict.contains("40,320m (1.28)"),
        "{verdict}"
    );
    let [silent, _] = others();
    for key in ["derivation_cpu", "policy", "mode"] {
        assert_eq!(explanation_json(&silent, NextWrite::IsDecided)[key], Value::Null);
    }
}

#[test]
fn the_page_of_a_node_without_a_report_has_no_derivation() {
    let [silent, _] = others();
    assert_snapshot!(page(&silent, true));
}

#[test]
fn the_page_names_the_source_of_the_mode_and_the_matching_entry() {
    let line = |mode_from: Source, entry: Option<&str>| {
        let in_force = InForce {
            mode_from,
            entry: entry.map(str::to_owned),
            ..in_force()
        };
        let status = wire::NodeStatus {
            policy: Some(wire::PolicyInForce::from_domain(&in_force, &[])),
            ..status("n")
        };
        let page = page(&node(status), false);
        page.lines()
            .find(|line| line.starts_with("mode "))
            .unwrap()
            .to_owned()
    };
    for (mode_from, entry, expected) in [
        (
            Source::Default,
            None,
            "mode auto by default, floor at pod requests",
        ),
        (
            Source::File,
            Some("wide"),
            r#"mode auto by the configuration file, floor at pod requests, under the ConfigMap's entry "wide""#,
        ),
        (
            Source::ConfigMap,
            None,
            "mode auto by the ConfigMap, floor at pod requests",
        ),
        (
            Source::Annotation,
            None,
            "mode auto by the node's annotation, floor at pod requests",
        ),
    ] {
        assert_eq!(line(mode_from, entry), expected);
    }
}

#[test]
fn a_floor_problem_is_a_member_of_the_json() {
    const TROUBLE: &str = "no floor: it is gone";
    let troubled = node(wire::NodeStatus {
        floor_trouble: TROUBLE.to_owned(),
        ..status("a")
    });
    let answer = explanation_json(&troubled, NextWrite::IsDecided);
    assert_eq!(answer["floor_trouble"], TROUBLE);
}

#[test]
fn a_node_in_another_mode_has_the_projection_of_auto() {
    let mut status = status("worker-1");
    status.would_be = Some(wire::Amounts {
        cpu_milli: 40_950,
        memory_bytes: 118 << 30,
    });
    let node = node(status);
    for has_derivation in [false, true] {
        let text = page(&node, has_derivation);
        let is_projection = |line: &str| line.contains(" mode auto ") && line.contains(" 40950m (1.30)");
        assert!(text.lines().any(is_projection), "{text}");
    }
    let json = explanation_json(&node, NextWrite::IsDecided);
    assert_eq!(
        (&json["would_be_cpu_milli"], &json["would_be_ratio_cpu_cents"]),
        (&Value::from(40_950), &Value::from(130))
    );
    let table = output::top_table(&[node], output::Layout::default()).plain();
    assert!(table.contains("CPU-AUTO") && table.contains(" 1.30 "), "{table}");
}

#[test]
fn the_next_write_depends_on_the_registration() {
    let finding = |code| Finding {
        code,
        severity: Severity::Error,
        sentence: String::new(),
        fix: "",
    };
    let node = example();
    for (codes, expected) in [
        (&["agents-silent"][..], NextWrite::IsDecided),
        (&["registration-differs"], NextWrite::MayPass),
        (&["registration-differs", "not-registered"], NextWrite::Passes),
    ] {
        let findings: Vec<Finding> = codes.iter().map(|code| finding(*code)).collect();
        let next_write = NextWrite::new(&findings);
        assert_eq!(next_write, expected);
        let (about, stored) = (next_write.about(), stored_state(&node, Resource::Cpu, next_write));
        assert!(stored.contains("31500m") && stored.ends_with(about), "{stored}");
        let verdict = NodeVerdict {
            node: &node,
            resource: Resource::Cpu,
            next_write,
        };
        assert!(
            verdict.to_string().ends_with(&format!("(1.28); {about}.")),
            "{verdict}"
        );
    }
}

/// CPU verdict of the worked example after a change.
fn verdict(change: impl FnOnce(&mut wire::NodeStatus)) -> String {
    let mut status = status("worker-1");
    change(&mut status);
    let node = node(status);
    let resource = Resource::Cpu;
    NodeVerdict {
        node: &node,
        resource,
        next_write: NextWrite::IsDecided,
    }
    .to_string()
}

fn cpu(status: &mut wire::NodeStatus) -> &mut wire::Resource {
    &mut status.hint.as_mut().unwrap().resources[0]
}

#[test]
fn a_verdict_has_allocatable_and_the_next_change() {
    let settled = verdict(|_| ());
    assert!(
        settled.starts_with("worker-1 offers 40,320m of 31,500m cpu (1.28). ")
            && settled.contains("measured use"),
        "{settled}"
    );
    let rising = verdict(|status| {
        status.raw.as_mut().unwrap().cpu_milli = 7_900;
        status.allocatable.as_mut().unwrap().cpu_milli = 9_477;
        status.rules_cpu.last_mut().unwrap().term = Some(wire::rule::Term::Amount(9_477));
        cpu(status).target_cents = 130;
    });
    assert!(
        rising.starts_with("worker-1 offers 9,477m of 7,900m cpu (1.20). ")
            && rising.contains("rises to 1.30")
            && rising.contains("0.05 every 5 min"),
        "{rising}"
    );
    let near = verdict(|status| cpu(status).target_cents = 129);
    assert!(near.contains("target of 1.29 is too close"), "{near}");
    let braked = verdict(|status| {
        cpu(status).brake = 1;
        cpu(status).reasons = vec!["rising".to_owned(), "cpu-no-idle".to_owned()];
    });
    assert!(
        braked.contains("Brake L1 hold ") && braked.contains(Reason::CpuNoIdle.about()),
        "{braked}"
    );
    let clamped = verdict(|status| cpu(status).reasons = vec!["clamped-max".to_owned()]);
    assert!(
        clamped.contains("policy") && clamped.ends_with(" 2.00."),
        "{clamped}"
    );
}

#[test]
fn a_verdict_names_the_rule_that_limits_the_ratio() {
    let held = verdict(|status| {
        status.rules_cpu[1].why = vec!["no-floor".to_owned()];
        cpu(status).target_cents = 140;
    });
    assert!(
        held.contains(" 1.40, ") && held.contains(Why::NoFloor.about()),
        "{held}"
    );
    let floored = verdict(|status| {
        status.rules_cpu[4].why = vec!["floor-fit".to_owned()];
        cpu(status).target_cents = 70;
    });
    assert!(
        floored.contains(" 0.70, ") && floored.contains(Why::FloorFit.about()),
        "{floored}"
    );
    let silent = verdict(|status| {
        status.hint = None;
        status.hint_standing = String::new();
        status.rules_cpu[1].why = vec!["no-hint".to_owned()];
    });
    assert!(silent.contains(&Why::NoHint.about()[1..]), "{silent}");
    let blind = verdict(|status| {
        status.hint.as_mut().unwrap().mode = wire::Mode::Blind.into();
        status.rules_cpu[1].why = vec!["blind".to_owned()];
        cpu(status).target_cents = 100;
    });
    assert!(blind.contains(&Why::Blind.about()[1..]), "{blind}");
    let unknown = verdict(|status| status.raw = None);
    assert!(
        unknown.starts_with("worker-1 offers 40,320m cpu; raw allocatable is not known yet."),
        "{unknown}"
    );
}

#[test]
fn a_verdict_of_mode_static_describes_the_annotation() {
    let annotated = |why: &str| {
        verdict(|status| {
            let policy = InForce {
                policy: Policy {
                    mode: Mode::Static,
                    ..Policy::default()
                },
                mode_from: Source::Default,
                entry: None,
            };
            status.policy = Some(wire::PolicyInForce::from_domain(&policy, &[]));
            status.rules_cpu[1].why = vec![why.to_owned()];
        })
    };
    for (why, expected) in [
        ("annotation", "the ratio is that of the node's annotation"),
        ("clamped-max", "exceeds the policy's maximum"),
        ("unmanaged", "without a ratio annotation"),
        ("bad-annotation", &Why::BadAnnotation.about()[1..]),
    ] {
        let verdict = annotated(why);
        assert!(verdict.contains(expected), "{verdict}");
    }
}

#[test]
fn open_places_are_listed_with_owner_and_end() {
    let mut status = status("worker-1");
    let place = |owner: &str, kind: &str, closes_in_ms| wire::OpenPlace {
        owner: owner.to_owned(),
        kind: kind.to_owned(),
        amounts: Some(wire::Amounts {
            cpu_milli: 400,
            memory_bytes: 1 << 30,
        }),
        closes_in_ms,
    };
    status.places = vec![
        place("DaemonSet kube-system/cni\u{1b}[2J", "daemonset", 432_000),
        place("", "other", 59_000),
    ];
    let node = node(status);
    let page = page(&node, false);
    let lines: Vec<&str> = page
        .lines()
        .skip_while(|line| !line.starts_with("open places"))
        .take(3)
        .collect();
    assert_eq!(
        lines,
        [
            "open places, kept for successors of pods that left:",
            r"  DaemonSet kube-system/cni\u001b[2J (daemonset): cpu 400m, memory 1.0GiB, closes in 7m",
            "  controller not known (other): cpu 400m, memory 1.0GiB, closes in 59s",
        ]
    );
    let json = explanation_json(&node, NextWrite::IsDecided);
    assert_eq!(
        json["places"][1],
        serde_json::json!({
            "owner": "", "kind": "other", "cpu_milli": 400, "mem_bytes": 1_u64 << 30, "closes_in_ms": 59_000,
        })
    );
}
