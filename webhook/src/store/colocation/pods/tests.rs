//! Tests of the pods by name, through the watch that they share with the pods by node.

use serde_json::json;

use super::*;
use crate::store::{colocation::pod_fan::PodFan, informer::Store as _, pods::Pods};

fn fan() -> PodFan {
    let by_name = PodsByName::new(Arrivals::default());
    by_name.keep_keys(["app".to_owned()].into());
    PodFan {
        by_node: Arc::new(Pods::new(Arc::default(), Arc::default())),
        by_name: Arc::new(by_name),
    }
}

fn pod(name: &str, node: Option<&str>, app: &str) -> WatchedPod {
    let metadata = json!({
        "namespace": "a", "name": name, "uid": name, "resourceVersion": "1", "labels": {"app": app},
    });
    serde_json::from_value(json!({"metadata": metadata, "spec": {"nodeName": node}})).unwrap()
}

fn list(fan: &PodFan, pods: impl IntoIterator<Item = WatchedPod>) {
    let mut listing = fan.listing();
    for pod in pods {
        PodFan::list(&mut listing, pod);
    }
    fan.replace(listing);
}

fn app(fan: &PodFan, name: &str) -> Option<String> {
    let keys = fan.by_name.pod("a", name)?;
    keys.labels.get("app").cloned()
}

#[test]
fn a_store_that_nobody_wants_stays_empty_and_unknown() {
    let fan = fan();
    list(&fan, [pod("p", Some("n1"), "web")]);
    fan.set_known(true);
    fan.apply(pod("q", Some("n1"), "web"));
    assert!(fan.by_name.is_empty() && !*fan.by_name.is_known.borrow());
    assert_eq!(fan.by_node.on("n1").unwrap().1.pods.len(), 2);
}

#[test]
fn bound_and_unbound_pods_are_there_from_their_first_event_to_their_last() {
    let fan = fan();
    let is_known = fan.by_name.want();
    list(
        &fan,
        [pod("bound", Some("n1"), "web"), pod("pending", None, "web")],
    );
    assert!(!*is_known.borrow(), "the watch does not count yet");
    fan.set_known(true);
    assert!(*is_known.borrow());
    assert_eq!(app(&fan, "pending").as_deref(), Some("web"));
    fan.apply(pod("pending", None, "batch"));
    assert_eq!(app(&fan, "pending").as_deref(), Some("batch"));
    fan.delete(pod("pending", None, "batch"));
    assert_eq!(
        (app(&fan, "pending"), app(&fan, "bound").as_deref()),
        (None, Some("web"))
    );
    assert!(fan.by_name.pod("b", "bound").is_none(), "another namespace");
    list(&fan, []);
    assert!(fan.by_name.is_empty());
    fan.set_known(false);
    assert!(!*is_known.borrow());
}

#[tokio::test]
async fn a_store_that_is_wanted_late_has_all_pods_listed_anew() {
    let fan = fan();
    let mut early = fan.listing();
    PodFan::list(&mut early, pod("p", None, "web"));
    let is_known = fan.by_name.want();
    fan.replace(early);
    fan.set_known(true);
    assert!(!*is_known.borrow(), "that list had nothing for this store");
    fan.relist().unwrap().notified().await;
    list(&fan, [pod("p", None, "web")]);
    assert!(*is_known.borrow() && fan.by_name.len() == 1);
}

#[tokio::test]
async fn a_store_that_is_wanted_no_more_is_empty_and_is_filled_anew_when_it_is_wanted_again() {
    let fan = fan();
    let is_known = fan.by_name.want();
    list(&fan, [pod("p", None, "web")]);
    fan.set_known(true);
    let mut late = fan.listing();
    PodFan::list(&mut late, pod("q", None, "web"));
    fan.by_name.close();
    fan.replace(late);
    fan.apply(pod("r", None, "web"));
    assert!(fan.by_name.is_empty() && !*is_known.borrow());
    assert_eq!(
        fan.by_name.read().pods.as_ref().map(|pods| pods.shared.len()),
        None
    );

    let is_known = fan.by_name.want();
    fan.relist().unwrap().notified().await;
    assert!(!*is_known.borrow());
    list(&fan, [pod("s", None, "web")]);
    assert!(*is_known.borrow() && fan.by_name.len() == 1);
}

#[test]
fn a_store_that_is_wanted_before_the_first_list_needs_no_second_one() {
    let fan = fan();
    fan.by_name.want();
    let wanted = fan.by_name.wanted().notified();
    let mut wanted = std::pin::pin!(wanted);
    assert!(!wanted.as_mut().enable());
}

#[test]
fn pods_with_the_same_labels_share_them_as_long_as_one_has_them() {
    let fan = fan();
    fan.by_name.want();
    let names = ["p", "q", "r"];
    list(&fan, names.map(|name| pod(name, None, "web")));
    let shared = || fan.by_name.read().pods.as_ref().unwrap().shared.len();
    assert_eq!(shared(), 1);
    let read = fan.by_name.pod("a", "p");
    assert!(Arc::ptr_eq(
        read.as_ref().unwrap(),
        &fan.by_name.pod("a", "q").unwrap()
    ));
    fan.apply(pod("p", None, "batch"));
    assert_eq!(shared(), 2);
    for name in names {
        fan.delete(pod(name, None, "web"));
    }
    assert_eq!(shared(), 0, "although somebody still reads one");
}

#[test]
fn a_pod_that_comes_is_told_to_those_who_wait() {
    let fan = fan();
    fan.by_name.want();
    list(&fan, []);
    let mut arrivals = fan.by_name.arrivals.subscribe();
    let mut is_told = || {
        let is_told = arrivals.has_changed().unwrap();
        arrivals.mark_unchanged();
        is_told
    };
    fan.apply(pod("p", None, "web"));
    assert!(is_told());
    fan.apply(pod("p", None, "batch"));
    assert!(!is_told(), "it was there");
    list(&fan, [pod("q", None, "web")]);
    assert!(is_told());
}
