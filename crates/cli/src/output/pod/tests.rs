//! Tests of the page about a pod's reviews on terminals of 80, 120 and 200 columns.

use headroom_proto::v1alpha1::FieldWrite;
use insta::assert_snapshot;

use super::*;

fn decided() -> DecidedPod {
    let profile = |name: &str, result: VerdictKind, reason: &str| ProfileVerdict {
        name: name.to_owned(),
        result: result.name().to_owned(),
        reason: reason.to_owned(),
    };
    let write = |path: &str, value: Option<&str>| FieldWrite {
        path: path.to_owned(),
        value: value.map(str::to_owned),
        writer: "profile batch-of-the-machine-learning-platform".to_owned(),
    };
    let decision = PodDecision {
        at_ms: 1_700_000_000_000,
        endpoint: "mutate-pod".to_owned(),
        operation: "CREATE".to_owned(),
        review: "01234567-89ab-cdef-0123-456789abcdef".to_owned(),
        outcome: "allowed".to_owned(),
        generate_name: "web-".to_owned(),
        profiles: vec![
            profile("batch-of-the-machine-learning-platform", VerdictKind::Applied, ""),
            profile(
                "production",
                VerdictKind::OtherNamespace,
                "spec.namespaceSelector: label \"environment\" is \"development\" and must be \"production\"",
            ),
        ],
        writes: vec![
            write(
                "spec.containers[0].resources.requests[kubernetes.io/batch-cpu]",
                Some("\"1k\""),
            ),
            write("spec.containers[0].resources.requests.cpu", None),
        ],
        ..PodDecision::default()
    };
    DecidedPod {
        pod: "shop/web-0".parse().unwrap(),
        origin: DecisionOrigin::Replicas(vec![AskedReplica {
            addr: "10.0.0.1:9444".to_owned(),
            kept: Err("cannot connect: the connection was refused by the other side, twice".to_owned()),
        }]),
        decisions: vec![ReplicaDecision {
            replica: "headroom-webhook-5d9c7b6f4-abcde".to_owned(),
            decision,
        }],
        left_out: 0,
    }
}

#[test]
fn the_page_of_a_pod_fits_80_120_and_200_columns() {
    let decided = decided();
    for columns in [80, 120, 200] {
        let layout = Layout {
            width: Some(columns),
            ..Layout::default()
        };
        let decided = &decided;
        let page = PodPage { decided, layout }.to_string();
        let longest = page.lines().map(|line| line.chars().count()).max();
        assert!(longest <= Some(columns), "{page}");
        assert_snapshot!(format!("pod_at_{columns}"), page);
    }
}
