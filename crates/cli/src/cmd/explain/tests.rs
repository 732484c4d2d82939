//! Tests of the explanation of a node: its verdicts, its pages with and without the derivation, and its JSON.

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
fn a_page_begins_with_what_to_know_and_says_why_in_words() {
    assert_snapshot!(page(&example(), false), @r#"
    worker-1 offers 31,500m of 31,500m cpu (1.00). It is to offer 40,320m (1.28): the next write sets it.
    worker-1 offers 118.0GiB of 118.0GiB memory (1.00). Brake L2 shed halves what is free step by step: tasks had to free memory of the machine themselves: at all, for 100 ms or for 1 s of a period (L1, L2 or L3).

    node worker-1, uid u1, 31 pods bound
    mode auto by the ConfigMap's entry "batch", floor at what pods hold
      cpu     bounds 1.00..2.00, target 90.0%, annotation up to 5.00
      memory  bounds 1.00..1.00, target 90.0%, annotation up to 5.00
    report 7 of boot b1, age 3s, pods of generation 4711
    agent: full, this replica nudges
    history counts since 3h ago: the agent found no checkpoint: the node is new, or the folder does not outlive the pod

    cpu: ratio 1.00, allocatable 31500m -> 31500m, bound 30000m, free 1500m, used 11240m, peak 15290m
      agent       measured use leaves room above raw (slack)
      webhook     a fresh hint is applied (hint)
                  stored: 31500m; the next write sets it

    memory: ratio 1.00, allocatable 118.0GiB -> 118.0GiB, bound 104.0GiB, free 14.0GiB, used 64.5GiB, peak 86.8GiB
      agent       tasks had to free memory of the machine themselves: at all, for 100 ms or for 1 s of a period (L1, L2 or L3) (direct-reclaim)
                  the numbers want more than the highest ratio allowed (clamped-max)
      webhook     a fresh hint is applied (hint)
                  the upper bound holds it down (clamped-max)
                  from-a-newer-webhook
                  stored as it is to be

    --why derives each number.
    "#);
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
        "mode": "auto", "mode_from": "entry", "entry": "batch", "floor": "requests",
        "cpu": of_resource(200), "memory": of_resource(100),
    });
    assert_eq!(value["policy"], policy);
    let verdict = "worker-1 offers 31,500m of 31,500m cpu (1.00). It is to offer 40,320m (1.28): the next write sets it.";
    assert_eq!(value["verdict_cpu"], verdict);
    let [silent, _] = others();
    for key in ["derivation_cpu", "policy", "mode"] {
        assert_eq!(explanation_json(&silent, NextWrite::IsDecided)[key], Value::Null);
    }
}

#[test]
fn the_page_of_a_silent_node_derives_nothing() {
    let [silent, _] = others();
    assert_snapshot!(page(&silent, true), @r"
    silent offers 40,320m cpu; its raw value is not known yet. The policy is not known yet: what was decided last stays.
    silent offers 118.0GiB memory; its raw value is not known yet. The policy is not known yet: what was decided last stays.

    node silent, uid u1, 31 pods bound
    policy not known: what was decided last stays
    ConfigMap refused: version 12: mode: unknown variant `Auto`
    no agent has reported

    cpu: ratio unknown, allocatable unknown -> 40320m, bound 30000m, free 10320m, used unknown, peak unknown
      no agent has derived a ratio yet

      baseline  31500m  raw: what the kubelet itself makes of the machine
      ratio       1.28  by mode, annotation, hint and bounds
                          a fresh hint is applied (hint)
      product   40320m  raw times the ratio, exclusive CPUs aside; cut off
      admitted  30000m  what the kubelet set aside for admitted pods; within the cap the result is not below it
      fit       30000m  with bound pods that fit into what is stored; they hold that, and no more
      cap       63000m  raw times the mode's maximum, or what was written last if more
      result    40320m  what allocatable is to be
                stored as it is to be

    memory: ratio unknown, allocatable unknown -> 118.0GiB, bound 104.0GiB, free 14.0GiB, used unknown, peak unknown
      no agent has derived a ratio yet

      baseline  126701535232B (118.0GiB)  raw: what the kubelet itself makes of the machine
      ratio                         1.00  by mode, annotation, hint and bounds
                                            a fresh hint is applied (hint)
                                            the upper bound holds it down (clamped-max)
      product   126701535232B (118.0GiB)  raw times the ratio, exclusive CPUs aside; cut off
      admitted  111669149696B (104.0GiB)  what the kubelet set aside for admitted pods; within the cap the result is not below it
      fit       111669149696B (104.0GiB)  with bound pods that fit into what is stored; they hold that, and no more
      cap       253403070464B (236.0GiB)  raw times the mode's maximum, or what was written last if more
      result    126701535232B (118.0GiB)  what allocatable is to be
                stored as it is to be
    ");
}

#[test]
fn the_page_tells_what_decides_the_mode_from_what_else_applies() {
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
            "mode auto by default, floor at what pods hold",
        ),
        (
            Source::File,
            Some("wide"),
            r#"mode auto by the configuration file, floor at what pods hold, under the ConfigMap's entry "wide""#,
        ),
        (
            Source::ConfigMap,
            None,
            "mode auto by the ConfigMap, floor at what pods hold",
        ),
        (
            Source::Annotation,
            None,
            "mode auto by the node's annotation, floor at what pods hold",
        ),
    ] {
        assert_eq!(line(mode_from, entry), expected);
    }
}

#[test]
fn trouble_with_the_floor_is_a_member_of_the_answer_for_machines() {
    const TROUBLE: &str = "no floor: it is gone";
    let troubled = node(wire::NodeStatus {
        floor_trouble: TROUBLE.to_owned(),
        ..status("a")
    });
    let answer = explanation_json(&troubled, NextWrite::IsDecided);
    assert_eq!(answer["floor_trouble"], TROUBLE);
}

#[test]
fn what_auto_would_give_is_told_of_a_node_in_another_mode() {
    let mut status = status("worker-1");
    status.would_be = Some(wire::Amounts {
        cpu_milli: 40_950,
        memory_bytes: 118 << 30,
    });
    let node = node(status);
    for has_derivation in [false, true] {
        let text = page(&node, has_derivation);
        assert!(
            text.contains(" mode auto would give 40950m (1.30), by steps\n"),
            "{text}"
        );
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
fn no_write_is_promised_that_the_webhook_does_not_decide() {
    let finding = |code| Finding {
        code,
        severity: Severity::Error,
        sentence: String::new(),
        mend: "",
    };
    let node = example();
    for (codes, said) in [
        (&["agents-silent"][..], "the next write sets it"),
        (
            &["registration-differs"],
            "the next write may pass without the webhook, as its registration differs",
        ),
        (
            &["registration-differs", "not-registered"],
            "nothing sets it while the API server does not call the webhook",
        ),
    ] {
        let findings: Vec<Finding> = codes.iter().map(|code| finding(*code)).collect();
        let next_write = NextWrite::new(&findings);
        let stored = format!("stored: 31500m; {said}");
        assert_eq!(standing(&node, Resource::Cpu, next_write), stored);
        let verdict = NodeVerdict {
            node: &node,
            resource: Resource::Cpu,
            next_write,
        };
        assert!(
            verdict.to_string().ends_with(&format!("(1.28): {said}.")),
            "{verdict}"
        );
    }
}

/// What is said of the CPU of the worked example after a change.
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
fn a_verdict_says_what_is_offered_and_what_comes_next() {
    assert_eq!(
        verdict(|_| ()),
        "worker-1 offers 40,320m of 31,500m cpu (1.28). That is what measured use allows."
    );
    let rising = verdict(|status| {
        status.raw.as_mut().unwrap().cpu_milli = 7_900;
        status.allocatable.as_mut().unwrap().cpu_milli = 9_477;
        status.rules_cpu.last_mut().unwrap().term = Some(wire::rule::Term::Amount(9_477));
        cpu(status).target_cents = 130;
    });
    assert_eq!(
        rising,
        "worker-1 offers 9,477m of 7,900m cpu (1.20). It could offer 1.30; rises by 0.05 every 5 min."
    );
    let near = verdict(|status| cpu(status).target_cents = 129);
    assert!(
        near.ends_with("It could offer 1.29, which is too near to change anything."),
        "{near}"
    );
    let braked = verdict(|status| {
        cpu(status).brake = 1;
        cpu(status).reasons = vec!["rising".to_owned(), "cpu-no-idle".to_owned()];
    });
    assert!(
        braked.contains("Brake L1 hold keeps it from rising: in 2 % of all 8.39 ms windows"),
        "{braked}"
    );
    let clamped = verdict(|status| cpu(status).reasons = vec!["clamped-max".to_owned()]);
    assert!(
        clamped.ends_with("Measured use would allow more, the policy no more than 2.00."),
        "{clamped}"
    );
}

#[test]
fn a_verdict_names_what_keeps_a_ratio_down() {
    let held = verdict(|status| {
        status.rules_cpu[1].why = vec!["no-floor".to_owned()];
        cpu(status).target_cents = 140;
    });
    assert!(
        held.ends_with(
            "It could offer 1.40, but the API server keeps no floor and nobody accepted that: hints do not raise."
        ),
        "{held}"
    );
    let floored = verdict(|status| {
        status.rules_cpu[4].why = vec!["floor-fit".to_owned()];
        cpu(status).target_cents = 70;
    });
    assert!(
        floored.ends_with(
            "It would offer 0.70 in place of 1.28, but bound pods that fit into what is stored hold it up."
        ),
        "{floored}"
    );
    let silent = verdict(|status| {
        status.hint = None;
        status.hint_standing = String::new();
        status.rules_cpu[1].why = vec!["no-hint".to_owned()];
    });
    assert!(silent.ends_with("No agent has reported yet."), "{silent}");
    let blind = verdict(|status| {
        status.hint.as_mut().unwrap().mode = wire::Mode::Blind.into();
        status.rules_cpu[1].why = vec!["blind".to_owned()];
        cpu(status).target_cents = 100;
    });
    assert!(
        blind.ends_with("The agent sees nothing: at most 1.00."),
        "{blind}"
    );
    let unknown = verdict(|status| status.raw = None);
    assert!(
        unknown.starts_with("worker-1 offers 40,320m cpu; its raw value is not known yet."),
        "{unknown}"
    );
}

#[test]
fn a_verdict_of_mode_static_is_about_the_annotation() {
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
    for (why, end) in [
        ("annotation", "Mode static: the node's ratio annotation says so."),
        ("clamped-max", "asks for more than the policy allows."),
        (
            "unmanaged",
            "Mode static, and no ratio annotation: it is left alone.",
        ),
        (
            "bad-annotation",
            "The ratio annotation cannot be used: it counts as 1.00.",
        ),
    ] {
        let told = annotated(why);
        assert!(told.ends_with(end), "{told}");
    }
}
