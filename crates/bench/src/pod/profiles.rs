//! Colocation profiles of which one in ten selects the Pod under review, and their PriorityClass.

use std::sync::Arc;

use anyhow::Result;
use headroom_webhook::store::{
    arrivals::Arrivals,
    by_name::{ByName, Keep, Listing},
    colocation::profile_sources::ProfileSources,
    informer::Store as _,
};
use serde_json::{Value, json};

/// One profile in this number selects the Pod.
const ONE_OF: usize = 10;

/// Stores of a replica that has listed `count` profiles.
pub(super) fn sources(count: usize) -> Result<Arc<ProfileSources>> {
    let sources = ProfileSources::new(&Arrivals::default());
    fill(&sources.profiles, (0..count).map(profile))?;
    let namespace = json!({"metadata": {"name": "reports", "labels": {"example.com/colocation": "enabled"}}});
    fill(&sources.namespaces, [namespace])?;
    let class = json!({
        "metadata": {"name": "koord-batch"}, "value": 5_500, "preemptionPolicy": "PreemptLowerPriority",
    });
    fill(&sources.classes, [class])?;
    Ok(Arc::new(sources))
}

/// A profile as in Koordinator's documentation. Profiles that do not select the Pod select other applications.
fn profile(index: usize) -> Value {
    let app = if index.is_multiple_of(ONE_OF) {
        "nightly-report".to_owned()
    } else {
        format!("other-{index}")
    };
    json!({
        "metadata": {"name": format!("profile-{index:03}")},
        "spec": {
            "namespaceSelector": {"matchLabels": {"example.com/colocation": "enabled"}},
            "selector": {"matchLabels": {"app.kubernetes.io/name": app}},
            "labels": {"example.com/colocated": "true"},
            "annotations": {"example.com/profile": format!("profile-{index:03}")},
            "qosClass": "BE",
            "priorityClassName": "koord-batch",
            "koordinatorPriority": 1000,
            "schedulerName": "koord-scheduler",
            "patch": {"spec": {"terminationGracePeriodSeconds": 30}},
        },
    })
}

/// Fills a store from a list.
fn fill<K: Keep>(store: &ByName<K>, objects: impl IntoIterator<Item = Value>) -> Result<()> {
    let mut listing = Listing::default();
    for object in objects {
        ByName::<K>::list(&mut listing, serde_json::from_str(&object.to_string())?);
    }
    store.replace(listing);
    Ok(())
}
