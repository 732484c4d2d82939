//! Sums and claims, first one by one, then against an API server of a few lines in any order of things.

mod model;

use std::time::Duration;

use headroom_domain::amounts::Amounts;
use headroom_rules::pod_quota::Transformation;
use rstest::rstest;
use serde_json::{Value, json};

use super::*;
use crate::store::{pending_limit, quota_request::PodGroup};

fn key(namespace: &str, name: &str) -> PodName {
    PodName {
        namespace: namespace.into(),
        name: name.into(),
    }
}

fn amounts(value: Value) -> Amounts {
    serde_json::from_value(value).unwrap()
}

/// A Pod of namespace `a` with the label of a quota, where there is one.
fn pod(name: &str, uid: &str, label: Option<&str>, requests: &Value) -> WatchedQuotaPod {
    versioned(name, uid, label, requests, 1)
}

fn versioned(name: &str, uid: &str, label: Option<&str>, requests: &Value, version: u64) -> WatchedQuotaPod {
    let labels = label.map(|label| json!({"quota.scheduling.koordinator.sh/name": label}));
    serde_json::from_value(json!({
        "metadata": {"namespace": "a", "name": name, "uid": uid, "labels": labels, "resourceVersion": version.to_string()},
        "spec": {"containers": [{"resources": {"requests": requests, "limits": {"cpu": 99}}}]},
        "status": {"phase": "Running", "containerStatuses": [{"name": 1}]},
    }))
    .unwrap()
}

fn request(name: &str, uid: &str, requested: Value) -> QuotaRequest {
    let group = PodGroup::new(Some("q"), "a");
    QuotaRequest {
        pod: key("a", name),
        uid: uid.into(),
        group: group.clone(),
        requested: amounts(requested),
        replaced: 0,
        levels: vec![vec![group, PodGroup::new(None, "mine")]],
        resources: ["cpu", "memory", "acme.io/cpu"].map(Into::into).into(),
        transformation: Transformation::None,
        controller: Box::default(),
        caller: ReviewCaller::Verified,
    }
}

fn known() -> Arc<QuotaPods> {
    let pods = QuotaPods::new(QuotaCounting::default(), Arrivals::default());
    pods.replace(Ledger::default());
    pods.set_known(true);
    pods
}

/// Use by stored pods and by pending admissions, for a request of another pod.
fn used(pods: &QuotaPods, now: Instant) -> (String, String) {
    let usage = &pods.usage(&request("asks", "", json!({})), now).unwrap()[0];
    (usage.stored.to_string(), usage.pending.to_string())
}

fn admit(pods: &Arc<QuotaPods>, name: &str, uid: &str, cpu: i64, now: Instant) -> Box<dyn PendingAdmission> {
    pods.admit(request(name, uid, json!({"cpu": cpu})), now, &mut |_| true)
        .unwrap()
        .unwrap()
}

#[test]
fn pods_count_by_label_and_others_by_namespace() {
    let (pods, now) = (known(), Instant::now());
    pods.apply(pod(
        "one",
        "1",
        Some("q"),
        &json!({"cpu": 1, "memory": "1Gi", "x": 0}),
    ));
    pods.apply(pod("two", "2", Some("other"), &json!({"cpu": 2})));
    pods.apply(pod("three", "3", Some(""), &json!({"cpu": 4})));
    assert_eq!(used(&pods, now).0, "cpu=1,memory=1Gi");
    let mut elsewhere = pod("four", "4", None, &json!({"cpu": 8}));
    elsewhere.metadata.namespace = Some("mine".to_owned());
    pods.apply(elsewhere.clone());
    assert_eq!(used(&pods, now).0, "cpu=9,memory=1Gi");
    elsewhere.status.phase = Some("Succeeded".to_owned());
    pods.apply(elsewhere);
    assert_eq!(used(&pods, now).0, "cpu=1,memory=1Gi");
    pods.delete(pod("one", "1", Some("q"), &json!({})));
    assert_eq!(used(&pods, now).0, "");
    assert_eq!(pods.counts(), (3, 0));
}

#[test]
fn all_pods_of_a_quota_are_summed_and_counted_for_people() {
    let (pods, now) = (known(), Instant::now());
    let groups = [PodGroup::new(Some("q"), "a"), PodGroup::new(None, "mine")];
    let sums = |pods: &QuotaPods| {
        let sums = pods.sums(&groups, Transformation::None, now)?;
        let usage = (sums.usage.stored.to_string(), sums.usage.pending.to_string());
        Some((usage, sums.pods, sums.pending))
    };
    pods.apply(pod("one", "1", Some("q"), &json!({"cpu": 1})));
    let mut ended = pod("two", "2", Some("q"), &json!({"cpu": 2}));
    pods.apply(ended.clone());
    admit(&pods, "three", "3", 4, now).keep();
    let expected = (("cpu=3".to_owned(), "cpu=4".to_owned()), 2, 1);
    assert_eq!(sums(&pods), Some(expected));
    ended.status.phase = Some("Failed".to_owned());
    pods.apply(ended);
    let expected = (("cpu=1".to_owned(), "cpu=4".to_owned()), 1, 1);
    assert_eq!(sums(&pods), Some(expected));
    pods.delete(pod("two", "2", Some("q"), &json!({})));
    assert_eq!(sums(&pods).unwrap().1, 1);
    let counted = |name| pods.counted(&key("a", name), Transformation::None);
    assert_eq!(counted("one").unwrap().requested.to_string(), "cpu=1");
    assert_eq!(counted("three"), None, "it is not stored");
    pods.set_known(false);
    assert_eq!(sums(&pods), None);
}

#[test]
fn resources_may_be_renamed_by_annotation() {
    let pods = known();
    let mut renamed = pod("one", "1", Some("q"), &json!({"cpu": 2}));
    let annotation = (
        "pod.koordinator.sh/replace-resources".to_owned(),
        "cpu:acme.io/cpu".to_owned(),
    );
    renamed.metadata.annotations = Some([annotation].into());
    pods.apply(renamed);
    pods.apply(pod("two", "2", Some("q"), &json!({"cpu": 1})));
    let stored = |transformation| {
        let request = QuotaRequest {
            transformation,
            ..request("asks", "", json!({}))
        };
        pods.usage(&request, Instant::now()).unwrap()[0]
            .stored
            .to_string()
    };
    assert_eq!(stored(Transformation::None), "cpu=3");
    assert_eq!(stored(Transformation::ByAnnotation), "acme.io/cpu=2k,cpu=1");
    pods.delete(pod("one", "1", Some("q"), &json!({})));
    assert_eq!(stored(Transformation::ByAnnotation), "cpu=1");
}

#[test]
fn a_claim_counts_until_the_pod_is_seen() {
    let (pods, now) = (known(), Instant::now());
    admit(&pods, "one", "1", 2, now).keep();
    assert_eq!(used(&pods, now), (String::new(), "cpu=2".to_owned()));
    // An earlier Pod of its name does not settle it.
    pods.apply(pod("one", "0", Some("q"), &json!({"cpu": 1})));
    pods.delete(pod("one", "0", Some("q"), &json!({})));
    assert_eq!(used(&pods, now).1, "cpu=2");
    pods.apply(pod("one", "1", Some("q"), &json!({"cpu": 2})));
    assert_eq!(used(&pods, now), ("cpu=2".to_owned(), String::new()));
    // It is deleted immediately: the pending admission ends.
    pods.delete(pod("one", "1", Some("q"), &json!({})));
    assert_eq!(used(&pods, now), (String::new(), String::new()));
}

#[test]
fn a_claim_that_is_not_kept_is_over_and_one_that_is_lasts_five_seconds() {
    let (pods, now) = (known(), Instant::now());
    drop(admit(&pods, "one", "1", 2, now));
    assert_eq!(used(&pods, now).1, "");
    admit(&pods, "one", "1", 2, now).keep();
    let later = |seconds| used(&pods, now + Duration::from_secs(seconds)).1;
    assert_eq!([4, 5].map(later), ["cpu=2", ""]);
    assert_eq!(pods.counts(), (0, 0));
}

/// A claim for a client, and a Pod of another name that the watch delivers late after its review by another client.
fn claim_during_lag(caller: ReviewCaller, of_late: ReviewCaller) -> (Arc<QuotaPods>, Instant) {
    let (pods, now) = (known(), Instant::now());
    let late = now.checked_sub(Duration::from_secs(3)).unwrap();
    let request_of_late = QuotaRequest {
        caller: of_late,
        ..request("late", "0", json!({"cpu": 1}))
    };
    pods.admit(request_of_late, late, &mut |_| true)
        .unwrap()
        .unwrap()
        .keep();
    let request = QuotaRequest {
        caller,
        ..request("one", "1", json!({"cpu": 2}))
    };
    pods.admit(request, now, &mut |_| true).unwrap().unwrap().keep();
    pods.apply(pod("late", "0", Some("q"), &json!({"cpu": 1})));
    (pods, now)
}

#[rstest]
#[case::of_an_api_server(ReviewCaller::Verified, ReviewCaller::Verified, "cpu=2")]
#[case::of_any_client(ReviewCaller::Unverified, ReviewCaller::Verified, "")]
#[case::any_client_proves_no_lag(ReviewCaller::Verified, ReviewCaller::Unverified, "")]
fn only_claims_of_api_servers_last_longer_while_the_watch_lags(
    #[case] caller: ReviewCaller,
    #[case] of_late: ReviewCaller,
    #[case] after_six_seconds: &str,
) {
    let (pods, now) = claim_during_lag(caller, of_late);
    let later = |seconds| used(&pods, now + Duration::from_secs(seconds)).1;
    assert_eq!([4, 6, 30].map(later), ["cpu=2", after_six_seconds, ""]);
}

/// A Pod of a controller.
fn owned(name: &str, controller: &str) -> WatchedQuotaPod {
    let mut pod = pod(name, name, Some("q"), &json!({"cpu": 1}));
    let owner =
        json!([{"apiVersion": "v1", "kind": "K", "name": "n", "uid": controller, "controller": true}]);
    pod.metadata.owner_references = serde_json::from_value(owner).unwrap();
    pod
}

/// Admits `count` pods of a controller, numbered from `first` on; returns the number of those that were.
fn admit_batch(pods: &Arc<QuotaPods>, controller: &str, first: usize, count: usize, now: Instant) -> usize {
    let admitted = (first..first + count).filter(|number| {
        let name = format!("{controller}-{number}");
        let request = QuotaRequest {
            controller: controller.into(),
            ..request(&name, &name, json!({"cpu": 1}))
        };
        let is_ahead = pods.is_ahead(&request.pod, controller, now);
        let result = pods.admit(request, now, &mut |_| true);
        assert_eq!(result.is_err(), is_ahead, "a review that would fail waits first");
        let pending = result.ok().flatten();
        let is_admitted = pending.is_some();
        pending.into_iter().for_each(PendingAdmission::keep);
        is_admitted
    });
    admitted.count()
}

#[test]
fn a_controller_whose_pods_are_stored_doubles_its_batches() {
    let (pods, now) = (known(), Instant::now());
    let mut first = 0;
    for batch in [1, 2, 4, 8, 16, 32] {
        assert_eq!(admit_batch(&pods, "c", first, batch, now), batch);
        for number in first..first + batch {
            pods.apply(owned(&format!("c-{number}"), "c"));
        }
        first += batch;
    }
    assert_eq!(used(&pods, now), ("cpu=63".to_owned(), String::new()));
}

#[test]
fn a_controller_whose_pods_are_not_stored_is_admitted_two_at_a_time() {
    let (pods, now) = (known(), Instant::now());
    assert_eq!(admit_batch(&pods, "c", 0, 10, now), 2);
    assert_eq!(admit_batch(&pods, "d", 0, 1, now), 1, "another controller");
    let mut elsewhere = owned("c-0", "c");
    elsewhere.metadata.namespace = Some("b".to_owned());
    pods.apply(elsewhere);
    assert_eq!(
        admit_batch(&pods, "c", 10, 1, now),
        0,
        "a pod of another namespace"
    );
    pods.apply(owned("c-0", "c"));
    pods.apply(owned("c-0", "c"));
    assert_eq!(admit_batch(&pods, "c", 10, 10, now), 2, "one is seen, once");
    let later = Instant::now() + pending_limit::LASTS;
    assert_eq!(admit_batch(&pods, "c", 20, 10, later), 2, "all of that is over");
}

#[test]
fn a_pod_whose_deletion_is_overdue_does_not_count() {
    let (pods, now) = (known(), Instant::now());
    let mut terminating = pod("one", "1", Some("q"), &json!({"cpu": 2}));
    pods.apply(terminating.clone());
    let deleted = jiff::Timestamp::now() - jiff::SignedDuration::from_secs(20);
    terminating.metadata.deletion_timestamp =
        Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(deleted));
    pods.apply(terminating.clone());
    let later = |seconds| used(&pods, now + Duration::from_secs(seconds)).0;
    assert_eq!([0, 9, 12].map(later), ["cpu=2", "cpu=2", ""]);
    // Its lost node's controller writes its status.
    pods.apply(terminating.clone());
    assert_eq!(later(12), "");
    let groups = [PodGroup::new(Some("q"), "a")];
    let sums = pods.sums(&groups, Transformation::None, now + Duration::from_secs(12));
    assert_eq!(sums.unwrap().pods, 0);
    pods.delete(terminating);
    assert_eq!((later(12), pods.counts()), (String::new(), (0, 0)));
}

#[test]
fn overhead_counts_unless_the_gate_ignores_it() {
    let now = Instant::now();
    let mut heavy = pod("one", "1", Some("q"), &json!({"cpu": 2}));
    heavy.spec.overhead = amounts(json!({"cpu": 1}));
    let counted = |ignores_overhead| {
        let counting = QuotaCounting {
            ignores_overhead,
            ..QuotaCounting::default()
        };
        let pods = QuotaPods::new(counting, Arrivals::default());
        let mut listing = pods.listing();
        QuotaPods::list(&mut listing, heavy.clone());
        pods.replace(listing);
        pods.set_known(true);
        used(&pods, now).0
    };
    assert_eq!([false, true].map(counted), ["cpu=3", "cpu=2"]);
}

#[rstest]
#[case::larger(2, 3)]
#[case::smaller(3, 2)]
fn of_claims_of_one_name_the_largest_counts(#[case] before: i64, #[case] after: i64) {
    let (pods, now) = (known(), Instant::now());
    let first = admit(&pods, "one", "1", before, now);
    admit(&pods, "one", "2", after, now).keep();
    assert_eq!(used(&pods, now).1, "cpu=3", "either may be stored");
    // The answer to the first is known to be lost only now.
    drop(first);
    assert_eq!(used(&pods, now).1, format!("cpu={after}"));
    // It does not count against itself.
    let usage = pods.usage(&request("one", "3", json!({"cpu": 3})), now).unwrap();
    assert_eq!(usage, [Usage::default()]);
}

#[test]
fn a_claim_counts_whatever_becomes_of_another_one_of_its_name() {
    let (pods, now) = (known(), Instant::now());
    let later = now + Duration::from_secs(3);
    let first = request("one", "1", json!({"cpu": 10, "memory": "1Gi"}));
    pods.admit(first, now, &mut |_| true).unwrap().unwrap().keep();
    let second = request("one", "2", json!({"cpu": "1m", "memory": "2Gi"}));
    pods.admit(second, later, &mut |_| true).unwrap().unwrap().keep();
    assert_eq!(used(&pods, later).1, "cpu=10,memory=2Gi");
    pods.apply(pod("one", "1", Some("q"), &json!({"cpu": 10, "memory": "1Gi"})));
    let expected = ("cpu=10,memory=1Gi".to_owned(), "memory=1Gi".to_owned());
    assert_eq!(used(&pods, later), expected);
    // The first is deleted immediately: the second may still be stored.
    pods.delete(pod("one", "1", Some("q"), &json!({})));
    assert_eq!(used(&pods, later).1, "cpu=1m,memory=2Gi");
    assert_eq!(
        used(&pods, later + pending_limit::LASTS),
        (String::new(), String::new())
    );
    assert_eq!(pods.counts(), (0, 0));
}

#[test]
fn a_pod_that_grows_claims_what_it_gets_more() {
    let (pods, now) = (known(), Instant::now());
    pods.apply(pod("one", "1", Some("q"), &json!({"cpu": 2})));
    admit(&pods, "one", "1", 5, now).keep();
    assert_eq!(used(&pods, now), ("cpu=2".to_owned(), "cpu=3".to_owned()));
    // Its status changes first.
    pods.apply(pod("one", "1", Some("q"), &json!({"cpu": 2})));
    assert_eq!(used(&pods, now).1, "cpu=3");
    pods.apply(pod("one", "1", Some("q"), &json!({"cpu": 5})));
    assert_eq!(used(&pods, now), ("cpu=5".to_owned(), String::new()));
}

#[test]
fn what_was_before_an_update_does_not_end_its_claim() {
    let (pods, now) = (known(), Instant::now());
    let request = QuotaRequest {
        replaced: 7,
        ..request("one", "1", json!({"cpu": 2}))
    };
    pods.admit(request, now, &mut |_| true).unwrap().unwrap().keep();
    let apply = |version, cpu| pods.apply(versioned("one", "1", Some("q"), &json!({"cpu": cpu}), version));
    // It had as much once, then less, and now gets it back.
    apply(6, 2);
    apply(7, 1);
    assert_eq!(used(&pods, now), ("cpu=1".to_owned(), "cpu=1".to_owned()));
    apply(8, 2);
    assert_eq!(used(&pods, now), ("cpu=2".to_owned(), String::new()));
}

#[test]
fn a_pod_that_moves_counts_in_both_until_it_is_seen() {
    let (pods, now) = (known(), Instant::now());
    pods.apply(pod("one", "1", Some("old"), &json!({"cpu": 2})));
    admit(&pods, "one", "1", 2, now).keep();
    assert_eq!(used(&pods, now), (String::new(), "cpu=2".to_owned()));
    pods.apply(pod("one", "1", Some("q"), &json!({"cpu": 2})));
    assert_eq!(used(&pods, now), ("cpu=2".to_owned(), String::new()));
}

#[rstest]
#[case::room(3, true)]
#[case::none(2, false)]
fn a_pod_is_claimed_if_it_fits(#[case] limit: i64, #[case] fits: bool) {
    let (pods, now) = (known(), Instant::now());
    admit(&pods, "one", "1", 2, now).keep();
    let limit = amounts(json!({"cpu": limit}));
    let claimed = pods.admit(request("two", "2", json!({"cpu": 1})), now, &mut |usage| {
        usage[0].pending.plus(&amounts(json!({"cpu": 1}))).fits(&limit)
    });
    let claimed = claimed.unwrap();
    assert_eq!(claimed.is_some(), fits);
    drop(claimed);
    assert_eq!(used(&pods, now).1, "cpu=2");
}

#[test]
fn nothing_is_said_while_not_all_pods_are_known() {
    let pods = QuotaPods::new(QuotaCounting::default(), Arrivals::default());
    let now = Instant::now();
    assert!(pods.usage(&request("one", "1", json!({})), now).is_none());
    assert!(
        pods.admit(request("one", "1", json!({"cpu": 1})), now, &mut |_| true)
            .unwrap()
            .is_none()
    );
    pods.set_known(true);
    assert!(pods.usage(&request("one", "1", json!({})), now).is_some());
    pods.clear();
    assert!(pods.usage(&request("one", "1", json!({})), now).is_none());
}

#[test]
fn a_whole_list_ends_the_claims_that_it_shows() {
    let (pods, now) = (known(), Instant::now());
    admit(&pods, "one", "1", 2, now).keep();
    admit(&pods, "two", "2", 3, now).keep();
    let mut listing = Ledger::default();
    QuotaPods::list(&mut listing, pod("one", "1", Some("q"), &json!({"cpu": 2})));
    pods.replace(listing);
    assert_eq!(used(&pods, now), ("cpu=2".to_owned(), "cpu=3".to_owned()));
}

#[test]
fn a_pod_of_an_endless_amount_takes_no_other_with_it() {
    let (pods, now) = (known(), Instant::now());
    pods.apply(pod("two", "2", Some("q"), &json!({"cpu": 2})));
    // Kubernetes stores them, where they are decimal.
    let endless = |name| pod(name, name, Some("q"), &json!({"cpu": "1e30"}));
    for name in ["a", "b"] {
        pods.apply(endless(name));
    }
    pods.delete(endless("a"));
    assert_ne!(used(&pods, now).0, "cpu=2");
    pods.delete(endless("b"));
    assert_eq!(used(&pods, now).0, "cpu=2");
}

#[test]
fn an_event_that_changes_no_amount_changes_nothing() {
    let pods = known();
    let object = || pod("one", "1", Some("q"), &json!({"cpu": 2}));
    pods.apply(object());
    for _ in 0..100 {
        pods.apply(object());
    }
    assert_eq!(used(&pods, Instant::now()).0, "cpu=2");
    assert_eq!(pods.counts(), (1, 0));
}

/// Amounts of this many unlimited resources, and one CPU.
fn many(count: usize) -> Value {
    let named = (0..count).map(|number| (format!("acme.io/x{number}"), json!(1)));
    Value::Object(named.chain([("cpu".to_owned(), json!(1))]).collect())
}

#[test]
fn what_nobody_limits_is_neither_kept_of_a_claim_nor_summed() {
    let (pods, now) = (known(), Instant::now());
    for uid in ["1", "2"] {
        let request = request("one", uid, many(1_000));
        pods.admit(request, now, &mut |_| true).unwrap().unwrap().keep();
    }
    let group = PodGroup::new(Some("q"), "a");
    let kept = |pods: &QuotaPods| {
        let state = pods.lock();
        let pending = state.pending.in_group(&group);
        pending
            .map(|pending| pending.most_of_each().iter().count())
            .sum::<usize>()
    };
    assert_eq!(kept(&pods), 1);
    pods.apply(pod("two", "2", Some("q"), &many(1_000)));
    assert_eq!(used(&pods, now), ("cpu=1".to_owned(), "cpu=1".to_owned()));
    // Nothing of it is limited: there is nothing to keep.
    let request = request("three", "3", json!({"acme.io/x1": 1}));
    assert!(pods.admit(request, now, &mut |_| true).unwrap().is_none());
    assert_eq!(pods.counts(), (1, 1));
}

#[test]
fn a_namespace_has_so_many_claims_and_no_more() {
    let (pods, now) = (known(), Instant::now());
    let ask = |namespace: &str, name: usize, now| {
        let request = QuotaRequest {
            pod: key(namespace, &name.to_string()),
            ..request("", "", json!({"cpu": 1}))
        };
        pods.admit(request, now, &mut |_| true)
    };
    for name in 0..pending_limit::MOST_OF_NAMESPACE {
        // Several of one name are several.
        ask("a", name / 2, now).unwrap().unwrap().keep();
    }
    let refused = ask("a", 5_000, now).unwrap_err();
    let text = "namespace a has 1024 pods that were admitted and are not stored yet; each counts for at most 5 seconds";
    assert_eq!(refused.to_string(), text);
    // A Pod with quota left is admitted, and a Pod without is refused.
    drop(ask("b", 0, now).unwrap().unwrap());
    let request = request("x", "x", json!({"cpu": 1}));
    assert!(pods.admit(request, now, &mut |_| false).unwrap().is_none());
    // One is seen, and there is room for one.
    pods.apply(pod("0", "", Some("q"), &json!({"cpu": 1})));
    ask("a", 5_000, now).unwrap().unwrap().keep();
    ask("a", 5_001, now).unwrap().unwrap().keep();
    assert!(ask("a", 5_002, now).is_err());
    assert!(ask("a", 5_002, now + pending_limit::LASTS).is_ok());
    assert_eq!(pods.counts(), (1, 0));
}

#[test]
fn namespace_below_its_share_always_has_a_place() {
    let (pods, now) = (known(), Instant::now());
    let ask = |namespace: &str, number: usize| {
        let request = QuotaRequest {
            pod: key(namespace, &number.to_string()),
            levels: Vec::new(),
            ..request("", "", json!({"cpu": 1}))
        };
        let pending = pods.admit(request, now, &mut |_| true)?;
        pending.unwrap().keep();
        Ok::<(), PendingLimit>(())
    };
    let of = |namespace: &str| {
        let state = pods.lock();
        let names = state.pending.names();
        names.filter(|pod| &*pod.namespace == namespace).count()
    };
    // An attacker fills all places from nine namespaces: eight have their maximum.
    for number in 0..pending_limit::MOST {
        ask(&format!("attacker-{}", number / 1_000), number).unwrap();
    }
    assert_eq!(pods.counts(), (0, pending_limit::MOST));
    // A tenth one gets its share, and no place more.
    let share = pending_limit::MOST / 10;
    for number in 0..share {
        ask("tenant", number).unwrap();
    }
    let error = ask("tenant", share).unwrap_err();
    assert_eq!(
        error,
        PendingLimit::All {
            namespace: "tenant".to_owned(),
            share
        }
    );
    assert_eq!((of("tenant"), pods.counts().1), (share, pending_limit::MOST));
    // The attacker's namespaces lost equal numbers, and none of a namespace below the share.
    for namespace in 0..8 {
        let left = of(&format!("attacker-{namespace}"));
        assert!((896..=899).contains(&left), "{namespace}: {left}");
    }
    assert_eq!(of("attacker-8"), 192);
    assert!(ask("attacker-0", 9_999_999).is_err());
}

#[test]
fn unreadable_pod_counts_as_last_read_and_its_quota_is_unknown_without_that() {
    let (pods, now) = (known(), Instant::now());
    pods.apply(pod("one", "1", Some("q"), &json!({"cpu": 2})));
    let unreadable = |name: &str, quota| versioned(name, name, Some(quota), &json!({}), 2);
    pods.apply_unreadable(pod("one", "1", Some("other"), &json!({})));
    assert_eq!(used(&pods, now).0, "cpu=2");
    // Another quota is not affected.
    pods.apply_unreadable(unreadable("new", "other"));
    assert_eq!(used(&pods, now).0, "cpu=2");
    pods.apply_unreadable(unreadable("new", "q"));
    let mut fits = |_: &[Usage]| panic!("the use is unknown");
    assert!(pods.usage(&request("x", "", json!({})), now).is_none());
    assert!(
        pods.admit(request("x", "", json!({"cpu": 1})), now, &mut fits)
            .unwrap()
            .is_none()
    );
    // So it is after a list, and the readable one counts as before.
    let mut listing = Ledger::default();
    pods.list_unreadable(&mut listing, pod("one", "1", Some("q"), &json!({})));
    pods.list_unreadable(&mut listing, unreadable("new", "q"));
    pods.replace(listing);
    assert!(pods.usage(&request("x", "", json!({})), now).is_none());
    pods.delete(unreadable("new", "q"));
    assert_eq!(used(&pods, now).0, "cpu=2");
    // One that has ended counts for nothing, readable or not.
    let mut ended = unreadable("ended", "q");
    ended.status.phase = Some("Failed".to_owned());
    pods.apply_unreadable(ended);
    assert_eq!(used(&pods, now).0, "cpu=2");
}

#[test]
fn pod_with_thousands_of_resources_needs_little_memory_and_hides_no_use() {
    let (pods, now) = (known(), Instant::now());
    pods.apply(pod("one", "1", Some("q"), &many(2_500)));
    assert_eq!(used(&pods, now).0, "cpu=1");
    let state = pods.lock();
    let kept = state.ledger.get(&key("a", "one"), Transformation::None).unwrap();
    assert!(kept.requested.iter().count() <= 40);
    drop(state);
    // Nothing is known of the use of a resource with a later name.
    let request = QuotaRequest {
        resources: ["cpu", "nvidia.com/gpu"].map(Into::into).into(),
        ..request("x", "", json!({"cpu": 1}))
    };
    assert!(pods.usage(&request, now).is_none());
    pods.delete(pod("one", "1", Some("q"), &json!({})));
    assert!(pods.usage(&request, now).is_some());
}
