//! Tests of the publisher: acknowledgements, checks of directives, lost streams, and hint servers that cannot be
//! reached.

use headroom_domain::ratio::Cents;

use super::*;

fn peer(last: u8) -> SocketAddr {
    SocketAddr::from(([127, 0, 0, last], 9))
}

fn stream_view() -> StreamView {
    StreamView {
        streams: BTreeMap::from([(peer(1), StreamStatus::new(peer(1)))]),
        ..StreamView::default()
    }
}

fn directive(kind: Kind) -> wire::Directive {
    wire::Directive { kind: Some(kind) }
}

fn pods() -> wire::Pods {
    let amounts = Some(wire::Amounts {
        cpu_milli: 2000,
        memory_bytes: 1 << 30,
    });
    wire::Pods {
        generation: 7,
        node_uid: "u1".into(),
        capacity: amounts,
        raw_allocatable: amounts,
        pods: vec![],
        memory_pressure: false,
        admitted: None,
    }
}

#[test]
fn an_answer_is_shown_and_a_refusal_told_once() {
    let mut streams = stream_view();
    for seq in 1..=3 {
        let ack = wire::Ack {
            seq,
            verdict: wire::Verdict::Rejected.into(),
            reason: "seq is 0".into(),
        };
        assert_eq!(streams.read(peer(1), directive(Kind::Ack(ack))), Ok(None));
    }
    let shown = streams.streams[&peer(1)].last_ack.clone().unwrap();
    assert_eq!(
        (shown.seq, shown.verdict.as_str(), shown.reason.as_str()),
        (3, "rejected", "seq is 0")
    );
    assert_eq!(streams.announced.len(), 1);
}

#[test]
fn reasons_that_keep_changing_are_not_kept_for_ever() {
    let mut streams = stream_view();
    for seq in 0..1000 {
        streams.warn_once(peer(1), &format!("{seq} is older than {}", seq + 1));
    }
    assert_eq!(streams.announced.len(), MOST_REASONS);
}

#[test]
fn directives_are_checked_before_they_are_passed_on() {
    let mut streams = stream_view();
    let Ok(Some(Directive::Pods(view))) = streams.read(peer(1), directive(Kind::Pods(pods()))) else {
        panic!("a good directive was not passed on");
    };
    assert_eq!((view.node_uid.as_str(), view.view.generation), ("u1", 7));
    let without = wire::Pods {
        raw_allocatable: None,
        ..pods()
    };
    let problem = streams.read(peer(1), directive(Kind::Pods(without))).unwrap_err();
    assert_eq!(problem.to_string(), "raw_allocatable: is missing");
    assert_eq!(streams.read(peer(1), wire::Directive { kind: None }), Ok(None));
}

#[test]
fn nonsense_about_pods_is_refused_by_its_field() {
    // A negative number, read as an unsigned one.
    const NEGATIVE: u64 = u64::MAX - 1;
    type Spoil = fn(&mut wire::Pods);
    const fn amounts(cpu_milli: u64, memory_bytes: u64) -> wire::Amounts {
        wire::Amounts {
            cpu_milli,
            memory_bytes,
        }
    }
    fn pod(uid: &str, qos: i32) -> Vec<wire::PodRequest> {
        vec![wire::PodRequest {
            uid: uid.into(),
            cpu_milli: NEGATIVE,
            memory_bytes: 1,
            qos,
            deleting: false,
            controller: 7,
            version: 8,
        }]
    }
    let spoils: [(Spoil, &str); 7] = [
        (|pods| pods.capacity = Some(amounts(NEGATIVE, 1)), "capacity.cpu"),
        (
            |pods| pods.raw_allocatable = Some(amounts(1, NEGATIVE)),
            "raw_allocatable.memory",
        ),
        (
            |pods| pods.raw_allocatable = Some(amounts(0, 1)),
            "raw_allocatable.cpu",
        ),
        (|pods| pods.node_uid = String::new(), "node_uid"),
        (|pods| pods.pods = pod("p1", 1), "pods"),
        (|pods| pods.pods = pod("p1", 99), "pods"),
        (|pods| pods.pods = pod("", 1), "pods"),
    ];
    for (spoil, field) in spoils {
        let mut message = pods();
        spoil(&mut message);
        let answer = stream_view().read(peer(1), directive(Kind::Pods(message)));
        let told = answer.unwrap_err().to_string();
        assert!(told.starts_with(field), "{field}: {told}");
    }
}

#[test]
fn nonsense_about_the_policy_is_refused_by_its_field() {
    let part = |min_cents, max_cents, target_ppm| {
        Some(wire::Bounds {
            min_cents,
            max_cents,
            target_ppm,
        })
    };
    for (cpu, field) in [
        (part(200, 100, 900_000), "cpu"),
        (part(100, u32::MAX, 900_000), "cpu"),
        (part(100, 200, 0), "cpu"),
        (part(100, 200, u32::MAX), "cpu"),
        (None, "cpu"),
    ] {
        let policy = wire::Policy {
            mode: 99,
            cpu,
            memory: part(100, 100, 900_000),
            floor: 99,
            timing_allowed: vec![99],
            quarantine: String::new(),
        };
        let answer = stream_view().read(peer(1), directive(Kind::Policy(policy)));
        let told = answer.unwrap_err().to_string();
        assert!(told.starts_with(field), "{field}: {told}");
    }
}

#[test]
fn a_policy_yields_bounds_and_targets() {
    let part = |max_cents| {
        Some(wire::Bounds {
            min_cents: 100,
            max_cents,
            target_ppm: 900_000,
        })
    };
    let policy = wire::Policy {
        mode: wire::AmplificationMode::Auto.into(),
        cpu: part(200),
        memory: part(125),
        floor: wire::Floor::Requests.into(),
        timing_allowed: vec![],
        quarantine: "use is far below what the kubelet says".into(),
    };
    let mut streams = stream_view();
    let Ok(Some(Directive::Policy { bounds, target_ppm })) =
        streams.read(peer(1), directive(Kind::Policy(policy)))
    else {
        panic!("a good policy was not passed on");
    };
    assert_eq!((bounds.memory.max, target_ppm.cpu), (Cents(125), 900_000));
    assert!(!streams.quarantine.is_empty());
}

#[test]
fn a_lost_stream_keeps_its_reason_until_the_next_one_opens() {
    let mut streams = stream_view();
    streams.lost(peer(1), "cannot connect".into());
    let shown = &streams.streams[&peer(1)];
    assert_eq!(
        (shown.state, shown.last_problem.as_deref()),
        (StreamState::Waiting, Some("cannot connect"))
    );
    streams.opened(peer(1));
    let shown = &streams.streams[&peer(1)];
    assert_eq!(
        (shown.state, shown.last_problem.as_deref()),
        (StreamState::Open, None)
    );
}

/// Address without a listener.
async fn deserted() -> SocketAddr {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    listener.local_addr().unwrap()
}

#[tokio::test]
async fn servers_that_cannot_be_reached_are_tried_again_and_do_not_delay_the_end() {
    let place = tempfile::tempdir().unwrap();
    let token = place.path().join("token");
    std::fs::write(&token, "t").unwrap();
    let access = Access {
        server_name: headroom_kit::tls::client::server_name("hints").unwrap(),
        ca_file: place.path().join("missing.crt"),
        credential: crate::args::Credential::Token(token),
    };
    let (reports_tx, reports) = watch::channel(None);
    let (addresses_tx, addresses) = watch::channel(BTreeSet::new());
    let (directives, _directives) = mpsc::channel(1);
    let (streams, mut shown) = watch::channel(Vec::new());
    let stopping = CancellationToken::new();
    let (_fanout_tx, fanout) = watch::channel(3);
    let ends = Ends {
        reports,
        fanout,
        addresses,
        directives,
        streams,
    };
    let publisher = tokio::spawn(Publisher::new("n1".into(), access, ends, stopping.clone()).run());

    let addresses = BTreeSet::from([deserted().await]);
    addresses_tx.send_replace(addresses.clone());
    let has_failed = |all: &Vec<StreamStatus>| all.iter().any(|stream| stream.last_problem.is_some());
    let failed = shown.wait_for(has_failed).await.unwrap().clone();
    assert_eq!(failed[0].state, StreamState::Waiting);
    assert!(
        failed[0].last_problem.as_ref().unwrap().contains("missing.crt"),
        "{failed:?}"
    );

    addresses_tx.send_replace(BTreeSet::new());
    shown.wait_for(Vec::is_empty).await.unwrap();
    addresses_tx.send_replace(addresses);
    shown.wait_for(has_failed).await.unwrap();
    drop(reports_tx);
    stopping.cancel();
    publisher.await.unwrap();
}
