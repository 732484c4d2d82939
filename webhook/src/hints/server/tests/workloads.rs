//! Tests of the profiles of workloads: reports with the use of pods, and the directives that follow.

use headroom_domain::{
    hint::{FrameUse, PodFrameUse},
    resource::PerResource,
};
use headroom_proto::v1alpha1::Workloads;
use serde_json::json;

use super::*;

/// Pod `a` of a Deployment, created in the past.
fn owned(version: u64) -> Value {
    let mut pod = pod("a", version, "1");
    pod["metadata"]["creationTimestamp"] = json!("2020-01-01T00:00:00Z");
    pod["metadata"]["ownerReferences"] = json!([{
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "name": "shop",
        "uid": "s1",
        "controller": true,
    }]);
    pod
}

fn report_of_use(seq: u64, milli: u64) -> HintReport {
    let used = PerResource {
        cpu: milli,
        memory: 1 << 30,
    };
    let mut hint = published(seq, 120);
    hint.resources.cpu.usage = 400;
    hint.resources.memory.usage = 1 << 30;
    hint.frame_use = Some(FrameUse {
        frame: seq,
        pods: vec![PodFrameUse {
            uid: "a".to_owned(),
            low: used,
            high: used,
        }],
    });
    HintReport {
        primary: false,
        pods_generation: u64::MAX,
        ..HintReport::from(&hint)
    }
}

impl StreamClient {
    async fn workloads(&mut self) -> Workloads {
        loop {
            if let Kind::Workloads(workloads) = self.next().await.unwrap().unwrap() {
                return workloads;
            }
        }
    }
}

#[tokio::test]
async fn a_report_with_the_use_of_pods_is_answered_with_profiles() {
    let site = Site::new().await;
    site.apply_pod(owned(6));
    let mut agent = site.open("agent-n1").await.unwrap();
    assert!(
        agent.workloads().await.profiles.is_empty(),
        "with the pods, none is known"
    );
    assert_eq!(
        agent.report(report_of_use(8, 400)).await.verdict(),
        Verdict::Accepted
    );
    let workloads = agent.workloads().await;
    assert!(workloads.profiles.is_empty(), "one frame gives no profile");
    assert!(workloads.seconds_of_day < 86_400);
    let (hint, _) = site.cluster.hints.get("n1", site.cluster.now()).unwrap();
    assert_eq!(hint.frame_use, None, "the table of hints does not keep it");
}

#[tokio::test]
async fn a_report_of_an_older_agent_changes_no_profile() {
    let site = Site::new().await;
    let mut agent = site.open("agent-n1").await.unwrap();
    agent.workloads().await;
    assert_eq!(agent.report(report(8, 120)).await.verdict(), Verdict::Accepted);
    site.apply_pod(pod("b", 6, "2"));
    // The next message is that of the pods.
    assert!(matches!(agent.next().await.unwrap(), Some(Kind::Pods(_))));
}
