//! Tests of the index: effects of an event, and the end of a pending admission.

use serde_json::{Value, json};
use tokio::time::advance;

use super::{super::pending::LIFETIME, *};
use crate::store::pending_limit::LASTS;

fn object(name: &str, version: u64, extra: &Value) -> WatchedQuota {
    let mut object = json!({
        "metadata": {"namespace": "a", "name": name, "uid": name, "resourceVersion": version.to_string()},
        "spec": {"min": {"cpu": 1}},
    });
    for (key, value) in extra.as_object().into_iter().flatten() {
        if let Some(members) = value.as_object() {
            for (name, value) in members {
                object[key][name] = value.clone();
            }
        }
    }
    serde_json::from_str(&object.to_string()).unwrap()
}

fn admitted(name: &str, version: u64, min: u64) -> (QuotaKey, AdmittedQuota) {
    let quota = object(name, version, &json!({"spec": {"min": {"cpu": min}}}))
        .parts()
        .quota();
    let key = quota.key();
    let admitted = AdmittedQuota {
        uid: name.into(),
        version,
        quota: Arc::new(quota),
        is_removal: false,
        caller: ReviewCaller::Verified,
    };
    (key, admitted)
}

fn admit(index: &QuotaIndex, (key, admitted): (QuotaKey, AdmittedQuota)) -> Box<dyn PendingAdmission> {
    let mut state = index.write();
    index
        .admit(&mut state, key, admitted)
        .expect("a pending admission")
}

fn min(index: &QuotaIndex, name: &str) -> Option<String> {
    let state = index.read();
    state
        .derived
        .by_name(name, Reader::Quota)
        .map(|quota| quota.min.to_string())
}

#[test]
fn an_event_that_changes_nothing_that_is_read_touches_nothing() {
    let index = QuotaIndex::new(Arrivals::default());
    index.apply(object("q", 1, &json!({})));
    let writes = index.writes();
    for version in 2..100 {
        let annotations = json!({"quota.scheduling.koordinator.sh/child-request": version.to_string()});
        index.apply(object(
            "q",
            version,
            &json!({"metadata": {"annotations": annotations}, "status": {}}),
        ));
    }
    assert_eq!(index.writes(), writes);
    index.apply(object("q", 100, &json!({"spec": {"min": {"cpu": 2}}})));
    assert_eq!(
        (index.writes(), min(&index, "q").as_deref()),
        (writes + 1, Some("cpu=2"))
    );
}

#[tokio::test(start_paused = true)]
async fn a_claim_counts_until_the_watch_shows_what_became_of_it() {
    let index = QuotaIndex::new(Arrivals::default());
    admit(&index, admitted("new", 0, 5)).keep();
    assert_eq!(min(&index, "new").as_deref(), Some("cpu=5"));
    index.apply(object("new", 7, &json!({})));
    assert_eq!(
        (min(&index, "new").as_deref(), index.pending()),
        (Some("cpu=1"), 0)
    );

    admit(&index, admitted("new", 7, 6)).keep();
    index.apply(object("new", 7, &json!({"metadata": {"labels": {"a": "b"}}})));
    assert_eq!(
        min(&index, "new").as_deref(),
        Some("cpu=6"),
        "an event of the version that it changes"
    );
    index.apply(object("new", 8, &json!({})));
    assert_eq!(min(&index, "new").as_deref(), Some("cpu=1"), "a later version");

    admit(&index, admitted("gone", 0, 5)).keep();
    advance(LIFETIME).await;
    assert_eq!((min(&index, "gone"), index.pending()), (None, 0));
}

#[test]
fn a_claim_whose_answer_does_not_leave_ends_and_the_one_before_it_counts_again() {
    let index = QuotaIndex::new(Arrivals::default());
    admit(&index, admitted("q", 0, 5)).keep();
    drop(admit(&index, admitted("q", 3, 6)));
    assert_eq!(min(&index, "q").as_deref(), Some("cpu=5"));
    drop(admit(&index, admitted("other", 0, 6)));
    assert_eq!((min(&index, "other"), index.len()), (None, 1));
}

#[test]
fn a_list_ends_claims_on_what_it_lacks_unless_that_is_new() {
    let index = QuotaIndex::new(Arrivals::default());
    index.apply(object("old", 1, &json!({})));
    admit(&index, admitted("old", 1, 5)).keep();
    admit(&index, admitted("new", 0, 5)).keep();
    index.replace(QuotaListing::default());
    assert_eq!(
        (min(&index, "old"), min(&index, "new").as_deref()),
        (None, Some("cpu=5"))
    );
}

#[test]
fn claims_are_bounded() {
    let index = QuotaIndex::new(Arrivals::default());
    for number in 0..5_000 {
        admit(&index, admitted(&format!("q{number}"), 0, 1)).keep();
    }
    assert!(index.pending() <= 4_097, "{}", index.pending());
    assert!(min(&index, "q0").is_none() && min(&index, "q4999").is_some());
}

#[test]
fn a_quota_of_the_name_of_one_that_is_going_is_claimed_and_of_one_that_stays_is_not() {
    let index = QuotaIndex::new(Arrivals::default());
    index.apply(object("q", 1, &json!({})));
    let is_claimed = || {
        let (key, new) = admitted("q", 0, 5);
        let other = AdmittedQuota {
            uid: "new".into(),
            ..new
        };
        let mut state = index.write();
        index.admit(&mut state, key, other)
    };
    assert!(is_claimed().is_none());
    let going = json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}});
    // Its finalizers may be done already, and the object deleted.
    index.apply(object("q", 2, &going));
    is_claimed().expect("a pending admission").keep();
    assert_eq!(min(&index, "q").as_deref(), Some("cpu=5"));
}

/// A quota of version 1 whose change to `max` 0, in another namespace list, every client that reaches the port can post.
#[test]
fn reviews_of_unverified_callers_change_no_quota_of_pods() {
    let index = QuotaIndex::new(Arrivals::default());
    let listing = |namespaces: &str| json!({"metadata": {"annotations": {"quota.scheduling.koordinator.sh/namespaces": namespaces}}});
    index.apply(object("q", 1, &listing(r#"["shop"]"#)));
    let forged = |name: &str, version: u64, is_removal: bool| {
        let quota = object(name, version, &listing(r#"["other"]"#)).parts().quota();
        let admitted = AdmittedQuota {
            uid: name.into(),
            version,
            quota: Arc::new(quota),
            is_removal,
            caller: ReviewCaller::Unverified,
        };
        admit(&index, (("a".into(), name.into()), admitted)).keep();
    };
    let seen = |reader| {
        let state = index.read();
        let owner = |namespace| {
            state
                .derived
                .owner(namespace, reader)
                .map(|quota| quota.name.to_string())
        };
        let key = ("a".into(), "q".into());
        (
            owner("shop"),
            owner("other"),
            state.is_removal_claimed(&key, reader),
        )
    };
    let stored = (Some("q".to_owned()), None, false);
    forged("q", 1, false);
    forged("new", 0, false);
    assert_eq!(seen(Reader::Pod), stored);
    assert_ne!(seen(Reader::Quota), stored);
    forged("q", 1, true);
    assert_eq!(seen(Reader::Pod), stored);
    let state = index.read();
    assert_eq!(state.derived.count_named("new", Reader::Pod), 0);
    assert_eq!(
        state
            .derived
            .children("koordinator-root-quota", Reader::Pod)
            .count(),
        1
    );
}

/// The API server may be ahead of the watch, so such a version is not wrong at once.
#[tokio::test(start_paused = true)]
async fn a_version_that_the_watch_has_not_reached_counts_for_seconds() {
    let index = QuotaIndex::new(Arrivals::default());
    index.apply(object("q", 7, &json!({})));
    let (key, admitted) = admitted("q", u64::MAX, 5);
    let forged = AdmittedQuota {
        caller: ReviewCaller::Unverified,
        ..admitted.clone()
    };
    admit(&index, (key.clone(), forged)).keep();
    index.apply(object("q", 8, &json!({})));
    advance(LASTS.saturating_sub(Duration::from_millis(1))).await;
    assert_eq!(min(&index, "q").as_deref(), Some("cpu=5"));
    advance(Duration::from_millis(1)).await;
    assert_eq!(min(&index, "q").as_deref(), Some("cpu=1"));
    admit(&index, (key, admitted)).keep();
    advance(LIFETIME.saturating_sub(Duration::from_millis(1))).await;
    assert_eq!(min(&index, "q").as_deref(), Some("cpu=5"), "of an API server");
}

#[test]
fn claims_are_bounded_in_memory() {
    let index = QuotaIndex::new(Arrivals::default());
    let namespaces: Vec<String> = (0..1_000)
        .map(|number| format!("namespace-{number:050}"))
        .collect();
    for number in 0..500 {
        let (key, admitted) = admitted(&format!("q{number}"), 0, 1);
        let quota = Quota {
            namespaces: namespaces.iter().map(|name| name.as_str().into()).collect(),
            ..(*admitted.quota).clone()
        };
        let large = AdmittedQuota {
            quota: Arc::new(quota),
            ..admitted
        };
        admit(&index, (key, large)).keep();
    }
    // Each takes about 92 kB.
    assert!((60..100).contains(&index.pending()), "{}", index.pending());
}
