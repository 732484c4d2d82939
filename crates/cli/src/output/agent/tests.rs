//! Tests of the output about an agent on a small node.

use headroom_proto::{
    status::{AckStatus, FIELDS, Measured, PeakStatus, Place, ResourceStatus, StreamState},
    v1alpha1::AgentPodUse,
};
use insta::assert_snapshot;
use serde_json::{Value, json};

use super::*;

#[expect(clippy::too_many_lines, reason = "a whole agent, field by field")]
fn agent() -> Status {
    let resource = |name: &str, capacity, slack| ResourceStatus {
        name: name.to_owned(),
        capacity,
        raw: capacity,
        safe: capacity / 10 * 9,
        peak: capacity / 4,
        predicted_peak: capacity / 3,
        warm_requests: capacity / 2,
        bound: capacity / 2,
        slack,
        target_cents: 128,
        published_cents: 125,
        coverage_ppm: 1_000_000,
        margin_ppm: 100_000,
        brake: 0,
        reasons: vec!["slack".to_owned()],
        ..ResourceStatus::default()
    };
    Status {
        node: "worker-1".to_owned(),
        node_uid: "u1".to_owned(),
        boot_id: "b1".to_owned(),
        version: "0.1.0".to_owned(),
        mode: "FULL".to_owned(),
        mode_sentence: "kernel programs count every context switch".to_owned(),
        timing: "production".to_owned(),
        source: "ebpf".to_owned(),
        history: HistoryStatus {
            age_s: 12_345,
            beginning: "nothing-saved".to_owned(),
            why: "the agent found no checkpoint".to_owned(),
        },
        measured: None,
        programs: vec![
            program(
                "sched_wakeup_new",
                "unsupported",
                "",
                "this kernel has no such tracepoint",
                0,
            ),
            program("sched_switch", "ok", "typed", "", 2_000),
        ],
        resources: vec![
            resource("cpu", 4_000, 1_120),
            ResourceStatus {
                unit: "bytes".to_owned(),
                ..resource("memory", 8 << 30, -(1 << 30))
            },
        ],
        pods: PodsStatus {
            tracked: 31,
            untracked: 0,
            unreadable: 1,
        },
        seq: 7,
        generation: 4711,
        streams: vec![
            stream("10.0.0.1:9444", StreamState::Open, true, ""),
            stream(
                "10.0.0.2:9444",
                StreamState::Waiting,
                false,
                "cannot connect: connection refused",
            ),
        ],
        signals: vec![
            signal("cpu-busy", "milli", Some(1_250), ""),
            signal("sigma8", "ppm", Some(12_000), ""),
            signal("run-queue-p99", "us", None, "the CPU brake may come late"),
            signal("memory-available", "bytes", Some(6 << 30), ""),
            signal("refaults", "MB/s", Some(3), ""),
            signal("switches", "per s", Some(54_321), ""),
            signal("oom-kills", "count", Some(0), ""),
        ],
    }
}

fn program(hook: &str, health: &str, flavour: &str, reason: &str, runs: u64) -> ProgramStatus {
    ProgramStatus {
        hook: hook.to_owned(),
        health: health.to_owned(),
        flavour: known(flavour),
        reason: known(reason),
        runs,
        run_time_ns: runs * 120,
        verifier_log: None,
    }
}

fn known(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| text.to_owned())
}

fn stream(peer: &str, state: StreamState, is_primary: bool, problem: &str) -> StreamStatus {
    StreamStatus {
        peer: peer.parse().unwrap(),
        state,
        is_primary,
        last_ack: is_primary.then(|| AckStatus {
            seq: 6,
            verdict: "accepted".to_owned(),
            reason: String::new(),
        }),
        last_problem: known(problem),
    }
}

fn signal(name: &str, unit: &str, value: Option<u64>, missing: &str) -> SignalStatus {
    let health = if missing.is_empty() { "ok" } else { "unsupported" };
    SignalStatus {
        name: name.to_owned(),
        source: "sched_switch".to_owned(),
        health: health.to_owned(),
        unit: unit.to_owned(),
        value,
        missing: known(missing),
    }
}

fn pod(uid: &str, is_told: bool) -> AgentPod {
    AgentPod {
        uid: uid.to_owned(),
        used: (!is_told).then_some(AgentPodUse {
            cpu_milli: 250,
            memory_low_bytes: 1 << 29,
            memory_high_bytes: 1 << 30,
        }),
        request: is_told.then_some(Amounts {
            cpu_milli: 1_000,
            memory_bytes: 2 << 30,
        }),
        trust_ppm: 500_000,
        exclusive_cpus_milli: 0,
        deleting: is_told,
    }
}

fn waits(counts: [u64; 3]) -> AgentHistogram {
    let upper = [Some(16_384), Some(1_048_576), None];
    AgentHistogram {
        metric: "headroom_agent_runq_wait_seconds".to_owned(),
        about: "Waits of sampled tasks for a CPU.".to_owned(),
        unit: "ns".to_owned(),
        buckets: upper
            .into_iter()
            .zip(counts)
            .map(|(upper, count)| AgentBucket { upper, count })
            .collect(),
    }
}

#[test]
fn the_status_of_an_agent() {
    assert_snapshot!(status(&agent(), Layout::default()), @r"
    agent 0.1.0 of node worker-1, uid u1
    sees full, production timing: kernel programs count every context switch
    report 7 of boot b1, pods of generation 4711
    history counts since 3h ago: the agent found no checkpoint
    pods by cgroup: 31 tracked, 0 untracked, 1 unreadable

                   CPU   MEMORY  MEANING
    C            4000m   8192Mi  physical capacity
    A            4000m   8192Mi  raw allocatable
    T            3600m   7373Mi  safe use
    P0           1000m   2048Mi  expected peak
    max H            -        -  highest conditioned peak of a frame
    age              -        -  frames since the highest peak
    H                -        -  conditioned peak of the last valid frame
    G                -        -  worst climb of memory in half an hour
    P            1333m   2731Mi  predicted peak
    Rw           2000m   4096Mi  warm requests
    R            2000m   4096Mi  requests of all bound pods
    S            1120m  -1024Mi  slack
    target        1.28     1.28  target ratio
    published     1.25     1.25  published ratio
    coverage    100.0%   100.0%  valid share of the history
    confidence    0.0%     0.0%  smaller of the coverage and the trusted share of requests
    margin       10.0%    10.0%  margin on the peak
    M             0.0%     0.0%  margin as calibrated by outcomes, before its limit
    latched         no       no  not amplified because of bad outcomes
    brake         none     none  level of the active brake
    cpu: measured use leaves slack above raw (slack)
    memory: measured use leaves slack above raw (slack)

    HOOK              HEALTH       FLAVOUR  RUNS  NS/RUN  REASON
    sched_wakeup_new  unsupported  -           -       -  this kernel has no such tracepoint
    sched_switch      ok           typed    2000     120  -

    SERVER         STATE    PRIMARY  ACKED  VERDICT   PROBLEM
    10.0.0.1:9444  open     yes          6  accepted  -
    10.0.0.2:9444  waiting  -            -  -         cannot connect: connection refused
    ");
}

/// Variants of a document, each with another value in one of the fields at a path.
fn changed(document: &Value, path: &str) -> Vec<Value> {
    fn places(part: &Value, names: &[&str], at: &str) -> Vec<String> {
        let Some((name, deeper)) = names.split_first() else {
            return vec![at.to_owned()];
        };
        let (name, is_list) = name
            .strip_suffix("[]")
            .map_or((*name, false), |name| (name, true));
        let (below, at) = (&part[name], format!("{at}/{name}"));
        match below.as_array() {
            Some(elements) if is_list => (0..elements.len())
                .flat_map(|index| places(&elements[index], deeper, &format!("{at}/{index}")))
                .collect(),
            _ => places(below, deeper, &at),
        }
    }
    let names: Vec<_> = path.split('.').collect();
    let others = |value: &Value| match value {
        Value::Bool(flag) => vec![json!(!flag)],
        Value::Number(number) => {
            let number = number.as_i64().expect("a whole number");
            vec![json!(number + 3_000_000_000), json!(number + 1)]
        }
        Value::Null | Value::String(_) | Value::Array(_) | Value::Object(_) => {
            vec![json!("open"), json!("waiting"), json!("10.9.9.9:1"), json!(1)]
        }
    };
    let mut all = Vec::new();
    for place in places(document, &names, "") {
        let value = document.pointer(&place).expect(path);
        let fitting = others(value)
            .into_iter()
            .filter(|other| other != value)
            .find_map(|other| {
                let mut document = document.clone();
                *document.pointer_mut(&place)? = other;
                serde_json::from_value::<Status>(document.clone()).ok()?;
                Some(document)
            });
        all.push(fitting.expect(path));
    }
    all
}

#[test]
fn tables_show_the_fields_that_the_list_declares() {
    let mut agent = agent();
    agent.measured = Some(Measured {
        mem_spare_bytes: Some(1),
        ..Measured::default()
    });
    for resource in &mut agent.resources {
        resource.history = Some(PeakStatus::default());
    }
    for program in &mut agent.programs {
        program.runs = 2_000;
        program.verifier_log = Some(format!("refused {}", program.hook));
    }
    for signal in &mut agent.signals {
        signal.value.get_or_insert(7);
    }
    for stream in &mut agent.streams {
        stream.last_ack.get_or_insert_with(|| AckStatus {
            seq: 5,
            verdict: "stale".to_owned(),
            reason: "another replica has a later one".to_owned(),
        });
    }
    let page =
        |agent: &Status| status(agent, Layout::default()) + &signals(&agent.signals, Layout::default());
    let (document, before) = (json!(agent), page(&agent));
    for field in FIELDS {
        let is_shown = match field.place {
            Place::Line | Place::Row(..) => true,
            Place::Column(heading) => {
                assert!(
                    heading.split(", ").all(|heading| before.contains(heading)),
                    "{heading}"
                );
                true
            }
            Place::Signal(_) | Place::DocumentOnly(_) => false,
        };
        let all = changed(&document, field.path);
        assert!(!all.is_empty(), "{} is in the document", field.path);
        for document in all {
            let after = page(&serde_json::from_value(document).unwrap());
            assert_eq!(after != before, is_shown, "{}: {after}", field.path);
        }
    }
}

#[test]
fn text_has_the_end_of_the_verifier_log_and_json_all_of_it() {
    let log: Vec<String> = (1..=20).map(|line| format!("line {line}")).collect();
    let refused = |hook: &str| ProgramStatus {
        verifier_log: Some(log.join("\n")),
        ..program(hook, "failed", "", "load: refused by the verifier", 0)
    };
    let agent = Status {
        programs: vec![
            refused("sched_wakeup"),
            refused("sched_switch"),
            program("cgroup_mkdir", "ok", "typed", "", 0),
        ],
        ..agent()
    };
    let text = status(&agent, Layout::default());
    let lines: Vec<&str> = text.lines().collect();
    let head = lines
        .iter()
        .position(|line| line.contains("refused the program for sched_wakeup, sched_switch; "));
    assert_eq!(lines[head.unwrap() + 1], "  line 13", "{text}");
    assert!(
        text.contains("  line 20\n\nSERVER") && !text.contains("line 12\n"),
        "{text}"
    );
    let programs = &json!(agent)["programs"];
    assert_eq!(programs[0]["verifier_log"], log.join("\n"));
    assert_eq!(programs[2]["verifier_log"], json!(null));
}

#[test]
fn an_agent_without_programs_and_servers() {
    let alone = Status {
        node_uid: String::new(),
        programs: Vec::new(),
        streams: Vec::new(),
        ..agent()
    };
    let text = status(&alone, Layout::default());
    assert!(
        text.contains("uid not known yet") && text.contains("\nno kernel programs\n"),
        "{text}"
    );
    assert!(text.ends_with("\nno hint server is known\n"), "{text}");
}

#[test]
fn the_signals_of_an_agent() {
    assert_snapshot!(signals(&agent().signals, Layout::default()), @r"
    SIGNAL              VALUE  HEALTH       SOURCE        MISSING
    cpu-busy            1250m  ok           sched_switch  -
    sigma8               1.2%  ok           sched_switch  -
    run-queue-p99           -  unsupported  sched_switch  the CPU brake may come late
    memory-available   6.0GiB  ok           sched_switch  -
    refaults            3MB/s  ok           sched_switch  -
    switches          54321/s  ok           sched_switch  -
    oom-kills               0  ok           sched_switch  -
    ");
}

#[test]
fn the_status_of_an_agent_fits_80_120_and_200_columns() {
    let id = "01234567-89ab-cdef-0123-456789abcdef".to_owned();
    let agent = Status {
        node: "ip-10-0-12-34.eu-central-1.compute.internal".to_owned(),
        node_uid: id.clone(),
        boot_id: id,
        history: HistoryStatus {
            why:
                "the checkpoint was written by another boot of this node and is too old to count for anything"
                    .to_owned(),
            ..agent().history
        },
        ..agent()
    };
    for columns in [80, 120, 200] {
        let layout = Layout {
            width: Some(columns),
            ..Layout::default()
        };
        let text = status(&agent, layout);
        let longest = text.lines().map(|line| line.chars().count()).max();
        assert!(longest <= Some(columns), "{text}");
        assert_snapshot!(format!("status_at_{columns}"), text);
    }
}

#[test]
fn an_agent_fits_80_columns() {
    let layout = Layout {
        width: Some(80),
        ..Layout::default()
    };
    for text in [
        shown(&PROGRAMS, agent().programs.iter().map(super::program), layout),
        signals(&agent().signals, layout),
    ] {
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    }
}

#[test]
fn the_pods_of_an_agent() {
    assert_snapshot!(pods(&[pod("p1", false), pod("p2", true)], Layout::default()), @r"
    POD   CPU  CPU-REQUEST  MEMORY  MEM-REQUEST  TRUST  EXCLUSIVE  STATE
    p1   250m            -  1024Mi            -  50.0%         0m  not in any server's directive
    p2      -        1000m       -       2048Mi  50.0%         0m  deleting
    ");
    assert_eq!(pods(&[], Layout::default()), "no pods\n");
}

#[test]
fn the_histograms_of_an_agent() {
    assert_snapshot!(histograms(&[waits([900, 90, 10]), waits([0, 0, 0])]), @r"
    Waits of sampled tasks for a CPU.
    (headroom_agent_runq_wait_seconds, since the agent's start)
    UP TO  COUNT  SHARE  SO FAR
     16us    900  90.0%   90.0%  ##############################
    1.0ms     90   9.0%   99.0%  ###
     more     10   1.0%  100.0%

    Waits of sampled tasks for a CPU.
    (headroom_agent_runq_wait_seconds, since the agent's start)
    UP TO  COUNT  SHARE  SO FAR
     16us      0   0.0%    0.0%
    1.0ms      0   0.0%    0.0%
     more      0   0.0%    0.0%
    ");
}

#[test]
fn a_line_has_a_pair_for_each_figure() {
    assert_snapshot!(line(&agent()), @r"
    node=worker-1 mode=FULL source=ebpf seq=7 cpu-ratio=1.25 cpu-brake=0 memory-ratio=1.25 memory-brake=0 cpu-busy=1250m sigma8=1.2% run-queue-p99=- memory-available=6.0GiB refaults=3MB/s switches=54321/s oom-kills=0
    ");
}

#[test]
fn unknown_values_are_null_in_json() {
    assert_eq!(
        pod_json(&pod("p2", true)),
        json!({
            "uid": "p2",
            "used": null,
            "request": {"cpu_milli": 1_000, "memory_bytes": 2_u64 << 30},
            "trust_ppm": 500_000,
            "exclusive_cpus_milli": 0,
            "deleting": true,
        })
    );
    let status = json!(agent());
    assert_eq!(status["streams"][1]["last_ack"], json!(null));
    assert_eq!(status["resources"][1]["unit"], "bytes");
    assert_eq!(status["signals"][2]["value"], json!(null));
    assert_eq!(
        histogram_json(&waits([1, 2, 3]))["buckets"][2],
        json!({"upper": null, "count": 3})
    );
}
