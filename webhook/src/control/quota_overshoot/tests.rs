//! Tests of quotas above their limit and of the time of the report.

use headroom_rules::pod_quota::LimitSource;
use rstest::rstest;
use serde_json::{Value, json};
use tokio::sync::watch;

use super::*;
use crate::store::{
    informer::Store as _, known::KnownSources, quota_pods::ledger::Ledger, quota_view::QuotaView, sources,
};

/// A view of stores that are known, of a webhook that evaluates pods.
fn view() -> QuotaView {
    let known = KnownSources::default();
    for source in [&sources::QUOTAS, &sources::QUOTA_PODS] {
        known.record(source, watch::channel(true).1);
    }
    let view = QuotaView {
        known,
        behaviour: Arc::new(|| QuotaBehaviour {
            evaluation: Evaluation::Refuses,
            has_default: true,
            ..QuotaBehaviour::default()
        }),
        ..QuotaView::default()
    };
    view.pod_usage.replace(Ledger::default());
    view.pod_usage.set_known(true);
    view
}

fn set_quota(view: &QuotaView, namespace: &str, name: &str, uid: &str, max: &Value) {
    let object = json!({
        "metadata": {"namespace": namespace, "name": name, "uid": uid, "resourceVersion": "1"},
        "spec": {"max": max},
    });
    let object = serde_json::from_str(&object.to_string()).unwrap();
    view.quotas.index.apply(object);
}

fn set_pod(view: &QuotaView, name: &str, quota: &str, cpu: u32) {
    let labels = json!({"quota.scheduling.koordinator.sh/name": quota});
    let pod = json!({
        "metadata": {"namespace": "a", "name": name, "uid": name, "labels": labels, "resourceVersion": "1"},
        "spec": {"containers": [{"resources": {"requests": {"cpu": cpu}}}]},
    });
    view.pod_usage.apply(serde_json::from_value(pod).unwrap());
}

/// Checks over the same stores.
#[derive(Default)]
struct Looks {
    history: OvershootHistory,
    found: QuotaOvershoots,
}

impl Looks {
    /// Checks once; returns namespace, name and UID of the reported quotas.
    async fn list_after(&mut self, view: &QuotaView) -> Vec<String> {
        find_overshoots(view, &mut self.history, &self.found).await;
        let told = self.found.list().into_iter();
        told.map(|of| format!("{}/{} {}", of.namespace, of.name, of.uid))
            .collect()
    }

    fn note(&self) -> String {
        self.found.list().remove(0).note
    }
}

#[tokio::test]
async fn a_quota_above_its_limit_is_told_at_the_second_look_until_it_is_not_any_more() {
    let (view, mut looks) = (view(), Looks::default());
    set_quota(&view, "q", "lab", "u1", &json!({"cpu": 2}));
    set_pod(&view, "one", "lab", 2);
    assert!(looks.list_after(&view).await.is_empty() && looks.list_after(&view).await.is_empty());
    set_pod(&view, "two", "lab", 3);
    assert!(
        looks.list_after(&view).await.is_empty(),
        "it may be about to change"
    );
    assert_eq!(looks.list_after(&view).await, ["q/lab u1"]);
    let told = looks.note();
    assert!(told.contains("cpu: used 5, limit 2 (max), 3 above."), "{told}");
    // A pod less is no news, a pod more than ever is.
    set_pod(&view, "two", "lab", 1);
    looks.list_after(&view).await;
    assert_eq!(looks.note(), told);
    set_pod(&view, "three", "lab", 9);
    looks.list_after(&view).await;
    assert!(
        looks.note().contains("used 12, limit 2 (max), 10 above"),
        "{}",
        looks.note()
    );
    set_quota(&view, "q", "lab", "u1", &json!({"cpu": 12}));
    assert!(looks.list_after(&view).await.is_empty());
    set_quota(&view, "q", "lab", "u1", &json!({"cpu": 11}));
    assert!(looks.list_after(&view).await.is_empty(), "it begins anew");
    assert_eq!(looks.list_after(&view).await, ["q/lab u1"]);
    set_quota(&view, "q", "lab", "u2", &json!({"cpu": 11}));
    assert!(
        looks.list_after(&view).await.is_empty(),
        "another quota of the name"
    );
}

#[tokio::test]
async fn what_nobody_is_compared_with_or_is_not_known_is_not_told() {
    let (mut view, mut looks) = (view(), Looks::default());
    for (namespace, name) in [
        ("q", "koordinator-default-quota"),
        ("one", "twice"),
        ("two", "twice"),
        ("q", "lab"),
    ] {
        set_quota(&view, namespace, name, "u", &json!({"cpu": 1}));
        set_pod(&view, name, name, 2);
    }
    looks.list_after(&view).await;
    assert_eq!(looks.list_after(&view).await, ["q/lab u"]);
    view.known.record(&sources::QUOTAS, watch::channel(false).1);
    assert!(looks.list_after(&view).await.is_empty(), "the watch is too old");
    view.known.record(&sources::QUOTAS, watch::channel(true).1);
    looks.list_after(&view).await;
    assert_eq!(looks.list_after(&view).await, ["q/lab u"]);
    view.behaviour = Arc::new(QuotaBehaviour::default);
    assert!(looks.list_after(&view).await.is_empty(), "pods are not evaluated");
}

#[tokio::test]
async fn twenty_thousand_quotas_leave_others_their_turn() {
    let (view, mut looks) = (view(), Looks::default());
    for number in 0..20_000 {
        set_quota(&view, "q", &format!("q-{number}"), "u", &json!({"cpu": 1}));
    }
    set_pod(&view, "p", "q-777", 2);
    let began = std::time::Instant::now();
    let others = async {
        let mut turns = 0_u64;
        loop {
            turns += 1;
            tokio::task::yield_now().await;
            if began.elapsed() > Duration::from_secs(60) {
                return turns;
            }
        }
    };
    tokio::select! {
        turns = others => panic!("it takes longer than a minute: {turns} turns"),
        _told = looks.list_after(&view) => {}
    }
    assert_eq!(looks.list_after(&view).await, ["q/q-777 u"]);
}

fn excess(resource: &str, above: i128) -> Excess {
    use headroom_domain::quantity::Quantity;
    Excess {
        resource: resource.to_owned(),
        used: Quantity::from_whole(above),
        limit: Quantity::ZERO,
        above: Quantity::from_whole(above),
        source: LimitSource::Admission,
    }
}

#[rstest]
#[case(&[("a", 1)], &[], true)]
#[case(&[("a", 1)], &[("a", 1)], false)]
#[case(&[("a", 1)], &[("a", 2), ("b", 1)], false)]
#[case(&[("a", 1), ("b", 1)], &[("a", 2)], true)]
fn only_more_than_before_is_news(
    #[case] now: &[(&str, i128)],
    #[case] before: &[(&str, i128)],
    #[case] expected: bool,
) {
    let of = |list: &[(&str, i128)]| -> Vec<Excess> {
        list.iter().map(|(name, above)| excess(name, *above)).collect()
    };
    assert_eq!(exceed(&of(now), &of(before)), expected);
}

#[test]
fn a_note_is_short_and_says_what_follows() {
    let many: Vec<Excess> = (0..20).map(|at| excess(&format!("r{at}"), 1)).collect();
    let text = note(&many, Evaluation::Warns);
    assert!(
        text.contains("r0: used 1, limit 0 (admission), 1 above; "),
        "{text}"
    );
    assert!(
        text.contains("; 12 more resources. New pods are still admitted."),
        "{text}"
    );
    assert!(note(&many, Evaluation::Refuses).contains("are refused until use falls"));
}
