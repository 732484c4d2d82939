//! Tests of the debug service's answers about quotas: the rules of admission, over stores that a test fills.

use headroom_proto::v1alpha1::{
    ExplainQuotaPodRequest, ExplainQuotaPodResponse, ExplainQuotaRequest, ExplainQuotaResponse,
    ExplainedQuota, ListQuotasRequest, ListQuotasResponse, QuotaName, QuotaStatus,
    quota_debug_client::QuotaDebugClient,
};
use headroom_rules::pod_quota::Transformation;
use rstest::rstest;
use serde_json::json;

use super::*;
use crate::store::{
    caller::ReviewCaller,
    colocation::pod_fan::PodFan,
    known::KnownSources,
    lookup::QuotaUsageLookup as _,
    quota_pods::ledger::Ledger,
    quota_request::{PodGroup, PodName, QuotaRequest},
    quota_view::{Evaluation, QuotaBehaviour},
    sources,
};

/// Longest message that clients take.
const LONGEST: usize = 4 << 20;

/// Stores that are empty and known, of a webhook that evaluates pods.
pub(super) fn view() -> QuotaView {
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

impl Site {
    /// Stores a quota; labels and annotations are without their domain.
    fn quota(&self, namespace: &str, name: &str, parent: &str, extra: &Value) {
        let keys = |part: &str| {
            let members = extra[part].as_object().into_iter().flatten();
            members
                .map(|(key, value)| (format!("quota.scheduling.koordinator.sh/{key}"), value.clone()))
                .collect::<serde_json::Map<_, _>>()
        };
        let mut labels = keys("labels");
        labels.insert("quota.scheduling.koordinator.sh/parent".to_owned(), parent.into());
        let object = json!({
            "metadata": {
                "namespace": namespace, "name": name, "uid": format!("uid-{name}"), "resourceVersion": "1",
                "labels": labels, "annotations": keys("annotations"),
            },
            "spec": extra["spec"],
        });
        let object = serde_json::from_str(&object.to_string()).unwrap();
        self.quotas.quotas.index.apply(object);
    }

    /// Stores a pod that asks for CPU.
    fn counted_pod(&self, namespace: &str, name: &str, label: Option<&str>, cpu: u32) {
        let labels = label.map(|label| json!({"quota.scheduling.koordinator.sh/name": label}));
        let pod = json!({
            "metadata": {"namespace": namespace, "name": name, "uid": name, "labels": labels, "resourceVersion": "1"},
            "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": cpu.to_string()}}}]},
            "status": {"phase": "Running"},
        });
        self.quotas
            .pod_usage
            .apply(serde_json::from_value(pod.clone()).unwrap());
        let fan = PodFan {
            by_node: Arc::clone(&self.cluster.pods),
            by_name: Arc::clone(&self.quotas.quotas.pods),
        };
        let was_known = *fan.by_name.want().borrow();
        if !was_known {
            fan.replace(fan.listing());
        }
        fan.apply(serde_json::from_value(pod).unwrap());
    }

    /// Admits a pod that is not stored yet.
    fn admit(&self, quota: &str, name: &str, cpu: u32) {
        let group = PodGroup::new(Some(quota), "shop");
        let request = QuotaRequest {
            pod: PodName {
                namespace: "shop".into(),
                name: name.into(),
            },
            uid: name.into(),
            group: group.clone(),
            requested: serde_json::from_value(json!({"cpu": cpu})).unwrap(),
            replaced: 0,
            levels: vec![vec![group]],
            resources: ["cpu".into()].into(),
            transformation: Transformation::None,
            controller: Box::default(),
            caller: ReviewCaller::Verified,
        };
        let pending = self
            .quotas
            .pod_usage
            .admit(request, std::time::Instant::now(), &mut |_| true);
        pending.unwrap().unwrap().keep();
    }

    async fn debug(&self) -> QuotaDebugClient<Channel> {
        QuotaDebugClient::new(self.channel(None).await)
    }

    async fn page(&self, after: Option<QuotaName>) -> ListQuotasResponse {
        let request = asked_by(ListQuotasRequest { after }, Some("person"));
        self.debug()
            .await
            .list_quotas(request)
            .await
            .unwrap()
            .into_inner()
    }

    async fn explain(&self, namespace: &str, name: &str) -> ExplainQuotaResponse {
        let request = ExplainQuotaRequest {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        };
        let request = asked_by(request, Some("person"));
        let answer = self.debug().await.explain_quota(request).await;
        answer.unwrap().into_inner()
    }

    async fn explain_one(&self, name: &str) -> ExplainedQuota {
        let mut quotas = self.explain("", name).await.quotas;
        assert_eq!(quotas.len(), 1, "{name}");
        quotas.remove(0)
    }

    async fn pod(&self, namespace: &str, name: &str) -> ExplainQuotaPodResponse {
        let request = ExplainQuotaPodRequest {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        };
        let request = asked_by(request, Some("person"));
        let answer = self.debug().await.explain_quota_pod(request).await;
        answer.unwrap().into_inner()
    }
}

/// `resource limit/from used+claimed left` of each resource.
fn resources(status: &QuotaStatus) -> Vec<String> {
    let shown = |text: &Option<String>| text.clone().unwrap_or_else(|| "-".to_owned());
    let resources = status.resources.iter();
    resources
        .map(|of| {
            let (used, claimed) = (shown(&of.used), shown(&of.claimed));
            let (limit, left) = (shown(&of.limit), shown(&of.left));
            format!(
                "{} {limit}/{} {used}+{claimed} {left}",
                of.resource, of.limit_from
            )
        })
        .collect()
}

#[rstest]
#[case::nobody(None, Code::Unauthenticated)]
#[case::agent(Some("agent-n1"), Code::PermissionDenied)]
#[case::not_allowed(Some("nosy"), Code::PermissionDenied)]
#[tokio::test]
async fn quotas_are_for_those_who_may_see_nodes(#[case] token: Option<&str>, #[case] code: Code) {
    let site = Site::new().await;
    let mut debug = site.debug().await;
    let listed = debug
        .list_quotas(asked_by(ListQuotasRequest::default(), token))
        .await;
    assert_eq!(listed.unwrap_err().code(), code);
    let explained = asked_by(ExplainQuotaRequest::default(), token);
    assert_eq!(debug.explain_quota(explained).await.unwrap_err().code(), code);
    let pod = asked_by(ExplainQuotaPodRequest::default(), token);
    assert_eq!(debug.explain_quota_pod(pod).await.unwrap_err().code(), code);
}

#[tokio::test]
async fn a_quota_is_shown_with_what_its_pods_have_and_what_is_left() {
    let site = Site::new().await;
    let spec = json!({"min": {"cpu": 1}, "max": {"cpu": 10, "memory": "4Gi"}});
    let admission =
        json!({"annotations": {"admission": r#"{"cpu": 6}"#}, "labels": {"tree-id": "t"}, "spec": spec});
    site.quota("q", "lab", "org", &admission);
    site.quota(
        "q",
        "broken",
        "",
        &json!({"annotations": {"admission": "{"}, "spec": spec}),
    );
    site.counted_pod("shop", "a", Some("lab"), 3);
    site.admit("lab", "b", 4);
    let ListQuotasResponse { sight, quotas, next } = site.page(None).await;
    let sight = sight.unwrap();
    assert_eq!(
        (
            sight.replica.as_str(),
            sight.evaluation.as_str(),
            sight.quotas,
            sight.pods,
            sight.pod_claims
        ),
        ("webhook-a", "refuses", 2, 1, 1)
    );
    assert!(sight.quotas_known && sight.pods_known && next.is_none());
    let [broken, lab] = quotas.as_slice() else {
        panic!("{quotas:?}");
    };
    assert_eq!(
        resources(lab),
        ["cpu 6/admission 3+4 -1", "memory 4Gi/max 0+0 4Gi"]
    );
    assert_eq!(
        (lab.pods, lab.claims, lab.parent.as_str(), lab.tree_id.as_str()),
        (Some(1), 1, "org", "t")
    );
    assert!(
        !lab.is_pending && !lab.is_going && lab.unreadable.is_empty(),
        "{lab:?}"
    );
    let place = "annotation quota.scheduling.koordinator.sh/admission of q/broken cannot be read: ";
    assert!(broken.unreadable.starts_with(place), "{broken:?}");
    assert_eq!(broken.resources[0].limit, None);
}

#[tokio::test]
async fn what_is_not_known_is_not_shown_as_nothing() {
    let site = Site::new().await;
    site.quota("q", "lab", "", &json!({"spec": {"max": {"cpu": 4}}}));
    site.quotas.pod_usage.set_known(false);
    site.quotas
        .known
        .record(&sources::QUOTA_PODS, watch::channel(false).1);
    let page = site.page(None).await;
    assert_eq!(resources(&page.quotas[0]), ["cpu 4/max -+- -"]);
    assert_eq!(page.quotas[0].pods, None);
    let verdict = site.explain_one("lab").await.verdict.unwrap();
    assert_eq!(verdict.result, "unknown");
}

#[tokio::test]
async fn twenty_thousand_quotas_come_in_pages_and_soon() {
    const QUOTAS: usize = 20_000;
    let site = Site::new().await;
    let extra = json!({"spec": {"min": {"cpu": 1}, "max": {"cpu": 4, "memory": "1Gi"}}});
    for number in 0..QUOTAS {
        site.quota("q", &format!("quota-{number:05}"), "org", &extra);
    }
    let began = Instant::now();
    let (mut after, mut pages, mut names) = (None, 0, Vec::new());
    loop {
        let page = site.page(after).await;
        let bytes: usize = page.quotas.iter().map(QuotaStatus::bytes).sum();
        assert!(bytes < LONGEST / 2, "{bytes}");
        pages += 1;
        names.extend(page.quotas.into_iter().map(|quota| quota.name));
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    assert!(names.is_sorted() && names.len() == QUOTAS, "{}", names.len());
    assert!((2..20).contains(&pages), "{pages}");
    assert!(began.elapsed() < SOON, "{:?}", began.elapsed());
    let near = site.explain("", "quota-2000").await.nearest;
    assert_eq!(near.len(), 3, "{near:?}");
}

#[tokio::test]
async fn orphans_cycles_and_what_is_wrong_already_are_told() {
    let site = Site::new().await;
    let spec = json!({"spec": {"min": {"cpu": 4}, "max": {"cpu": 4}}});
    let parent = json!({"labels": {"is-parent": "true"}, "spec": {"min": {"cpu": 2}, "max": {"cpu": 4}}});
    site.quota("q", "lost", "nowhere", &spec);
    site.quota("q", "a", "b", &parent);
    site.quota("q", "b", "a", &parent);
    site.quota("q", "org", "koordinator-root-quota", &parent);
    site.quota("q", "team", "org", &spec);
    let way = |explained: &ExplainedQuota| (explained.way_end.clone(), explained.above.join(" "));
    let lost = site.explain_one("lost").await;
    assert_eq!(way(&lost), ("orphan".to_owned(), "nowhere".to_owned()));
    let [fault] = lost.faults.as_slice() else {
        panic!("{lost:?}");
    };
    assert_eq!(
        fault,
        "lost has parentName nowhere but not find parentInfo in quotaInfoMap"
    );
    let cyclic = site.explain_one("a").await;
    assert_eq!(way(&cyclic), ("cycle".to_owned(), "b a".to_owned()));
    assert!(
        cyclic.faults[0].contains("that is the quota itself, or a part of it"),
        "{cyclic:?}"
    );
    let team = site.explain_one("team").await;
    assert_eq!(way(&team), ("root".to_owned(), "org".to_owned()));
    let exceeded = "checkMinQuotaSum all brothers' MinQuota > parent MinQuota, parent: org";
    assert_eq!(team.faults, [exceeded]);
    let org = site.explain_one("org").await;
    assert_eq!(org.children, 1);
    assert_eq!(
        org.faults,
        ["checkMinQuotaSum all children's MinQuota > current MinQuota, current: org"]
    );
    let verdict = org.verdict.unwrap();
    assert_eq!(verdict.result, "refused");
    assert_eq!(
        verdict.reasons,
        ["pod can not be linked to a parentQuotaGroup,quota:org, pod:"]
    );
}

#[tokio::test]
async fn a_name_in_two_namespaces_is_both_and_an_unknown_one_is_near_some() {
    let site = Site::new().await;
    let spec = json!({"spec": {"max": {"cpu": 4}}});
    site.quota("one", "lab", "", &spec);
    site.quota("two", "lab", "", &spec);
    site.quota("two", "batch", "", &spec);
    let both = site.explain("", "lab").await.quotas;
    let verdict = both[1].verdict.clone().unwrap();
    assert_eq!((both.len(), both[0].of_the_name), (2, 2));
    assert_eq!(verdict.reasons, ["more than one elastic quota lab found"]);
    assert_eq!(site.explain("two", "lab").await.quotas.len(), 1);
    let none = site.explain("", "btach").await;
    let near = QuotaName {
        namespace: "two".to_owned(),
        name: "batch".to_owned(),
    };
    assert_eq!((none.quotas.len(), none.nearest), (0, vec![near]));
    assert_eq!(site.explain("three", "lab").await.nearest.len(), 2);
}

#[tokio::test]
async fn namespaces_of_a_quota_are_its_own_or_of_another() {
    let site = Site::new().await;
    let spec = json!({"max": {"cpu": 4}});
    let listing = |list: &str| json!({"annotations": {"namespaces": list}, "spec": spec});
    site.quota("a", "first", "", &listing(r#"["shop", "team", "shop"]"#));
    site.quota("b", "second", "", &listing(r#"["shop"]"#));
    site.quota("team", "team", "", &json!({"spec": spec}));
    let places = |explained: ExplainedQuota| {
        let places = explained.namespaces.into_iter();
        places
            .map(|place| {
                format!(
                    "{} {} {} {}",
                    place.namespace, place.rule, place.quota, place.counts
                )
            })
            .collect::<Vec<_>>()
    };
    assert_eq!(
        places(site.explain_one("first").await),
        ["shop listed first true", "team like-named team false"]
    );
    let second = site.explain_one("second").await;
    let bound = "AddQuota quota second's annotation namespace shop is already bound to quota first";
    assert_eq!(second.faults, [bound]);
    assert_eq!(places(second), ["shop listed first false"]);
    assert_eq!(
        places(site.explain_one("team").await),
        ["team like-named team true"]
    );
}

#[tokio::test]
async fn a_pod_is_shown_with_its_quota_and_what_it_would_be_told() {
    let site = Site::new().await;
    let spec = json!({"max": {"cpu": 4}});
    site.quota(
        "q",
        "lab",
        "",
        &json!({"annotations": {"namespaces": r#"["shop"]"#}, "spec": spec}),
    );
    site.counted_pod("shop", "small", Some("lab"), 1);
    site.counted_pod("shop", "unlabelled", None, 2);
    site.counted_pod("elsewhere", "free", None, 9);
    let found = |answer: &ExplainQuotaPodResponse| {
        let ExplainQuotaPodResponse {
            is_known,
            quota,
            rule,
            verdict,
            is_counted,
            ..
        } = answer;
        let result = verdict.as_ref().map(|verdict| verdict.result.clone()).unwrap();
        format!("{is_known} {is_counted} {rule} {quota} {result}")
    };
    let small = site.pod("shop", "small").await;
    assert_eq!(found(&small), "true true label lab room");
    assert_eq!(resources(&small.quotas[0]), ["cpu 4/max 3+0 1"]);
    assert_eq!(
        (
            small.requested[0].resource.as_str(),
            small.requested[0].amount.as_str()
        ),
        ("cpu", "1")
    );
    let unlabelled = site.pod("shop", "unlabelled").await;
    assert_eq!(found(&unlabelled), "true true listed lab room");
    // Other pods use its amount, and it would not be admitted again.
    site.admit("lab", "late", 2);
    let refused = site.pod("shop", "unlabelled").await;
    assert_eq!(found(&refused), "true true listed lab refused");
    let text = "exceeded quota: q/lab, requested: cpu=2, used: cpu=3, limited: cpu=4";
    assert_eq!(refused.verdict.unwrap().reasons, [text]);
    let free = site.pod("elsewhere", "free").await;
    assert_eq!(
        found(&free),
        "true true default koordinator-default-quota unlimited"
    );
    let unknown = site.pod("shop", "ghost").await;
    assert_eq!(found(&unknown), "false false listed lab room");
}
