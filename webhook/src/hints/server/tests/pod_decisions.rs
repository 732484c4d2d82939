//! Tests of the debug service's answers about the last reviews of pods.

use headroom_proto::v1alpha1::{
    FieldWrite, ListPodDecisionsRequest, ListPodDecisionsResponse, ProfileVerdict,
};
use headroom_rules::explain::{Explanation, VerdictKind, Writer};
use rstest::rstest;
use serde_json::json;

use super::*;
use crate::store::{
    caller::ReviewCaller,
    pod_decisions::{PodDecision, ReviewedPod},
};

fn decision(number: u64, explanation: Explanation) -> PodDecision {
    PodDecision {
        at: SystemTime::UNIX_EPOCH + Duration::from_millis(number),
        endpoint: "mutate-pod",
        operation: "CREATE",
        pod: ReviewedPod {
            namespace: "shop".to_owned(),
            name: "web".to_owned(),
            ..ReviewedPod::default()
        },
        review: number.to_string(),
        is_dry_run: number == 2,
        caller: ReviewCaller::Verified,
        outcome: "denied",
        reasons: vec!["spec.priority: Required value".to_owned()],
        explanation,
    }
}

async fn ask(site: &Site, token: Option<&str>) -> Result<ListPodDecisionsResponse, Status> {
    let mut debug = DebugClient::new(site.channel(None).await);
    let request = ListPodDecisionsRequest {
        namespace: "shop".to_owned(),
        name: "web".to_owned(),
    };
    Ok(debug
        .list_pod_decisions(asked_by(request, token))
        .await?
        .into_inner())
}

#[rstest]
#[case::nobody(None, Code::Unauthenticated)]
#[case::agent(Some("agent-n1"), Code::PermissionDenied)]
#[case::not_allowed(Some("nosy"), Code::PermissionDenied)]
#[tokio::test]
async fn decisions_are_for_those_who_may_see_nodes(#[case] token: Option<&str>, #[case] code: Code) {
    let site = Site::new().await;
    assert_eq!(ask(&site, token).await.unwrap_err().code(), code);
}

#[tokio::test]
async fn decisions_are_shown_with_all_that_is_kept_of_them() {
    let site = Site::new().await;
    let none = ask(&site, Some("person")).await.unwrap();
    assert_eq!(
        (none.replica.as_str(), none.kept, none.oldest_ms),
        ("webhook-a", 0, None)
    );
    let mut explanation = Explanation::default();
    explanation.begin(Writer::Profile("batch".into()));
    explanation.note_change(&["metadata", "labels"], &json!({"b": "1"}), &json!({"a": "1"}));
    explanation.note_profile("batch", VerdictKind::Applied, |_| Ok(()));
    site.decisions.record(decision(1, Explanation::default()));
    site.decisions.record(decision(2, explanation));
    let found = ask(&site, Some("person")).await.unwrap();
    assert_eq!((found.kept, found.oldest_ms, found.left_out), (2, Some(1), 0));
    let [newest, oldest] = found.decisions.as_slice() else {
        panic!("{found:?}");
    };
    assert_eq!((newest.at_ms, newest.dry_run, oldest.dry_run), (2, true, false));
    assert_eq!(newest.reasons, ["spec.priority: Required value"]);
    let write = |path: &str, value: Option<&str>| FieldWrite {
        path: path.to_owned(),
        value: value.map(str::to_owned),
        writer: "profile batch".to_owned(),
    };
    let writes = [
        write("metadata.labels.a", Some("\"1\"")),
        write("metadata.labels.b", None),
    ];
    assert_eq!(newest.writes, writes);
    let verdict = ProfileVerdict {
        name: "batch".to_owned(),
        result: "applied".to_owned(),
        reason: String::new(),
    };
    assert_eq!(newest.profiles, [verdict]);
}

#[tokio::test]
async fn an_answer_is_no_longer_than_a_message_may_be() {
    let site = Site::new().await;
    for number in 0..200 {
        let mut explanation = Explanation::default();
        for profile in 0..100 {
            explanation.note_profile(&format!("p{profile}"), VerdictKind::Failed, |why| {
                why.write_str(&"x".repeat(250))
            });
        }
        site.decisions.record(decision(number, explanation));
    }
    let found = ask(&site, Some("person")).await.unwrap();
    let shown = u32::try_from(found.decisions.len()).unwrap();
    assert_eq!((shown + found.left_out, found.decisions[0].at_ms), (200, 199));
    let bytes = found
        .decisions
        .iter()
        .map(headroom_proto::v1alpha1::PodDecision::bytes)
        .sum::<usize>();
    assert!((1 << 20..2 << 20).contains(&bytes), "{bytes}");
}
