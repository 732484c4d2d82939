//! Tests of `quota tree` and `quota explain` against a debug service in this process.

use headroom_proto::v1alpha1::{
    ExplainQuotaPodRequest, ExplainQuotaPodResponse, ExplainQuotaRequest, ExplainQuotaResponse,
    ExplainedQuota, ListQuotasRequest, ListQuotasResponse, PodAmount, QuotaName, QuotaNamespace,
    QuotaResource, QuotaSight, QuotaStatus, QuotaVerdict, quota_debug_server::QuotaDebug,
};
use insta::assert_snapshot;
use serde_json::Value;

use super::*;

/// A webhook with three quotas, two per page.
pub(super) struct Quotas;

fn resource(name: &str, used: &str, claimed: Option<&str>, left: &str) -> QuotaResource {
    QuotaResource {
        resource: name.to_owned(),
        min: Some("10".to_owned()),
        max: Some("40".to_owned()),
        limit: Some("40".to_owned()),
        limit_from: "max".to_owned(),
        used: Some(used.to_owned()),
        claimed: claimed.map(str::to_owned),
        left: Some(left.to_owned()),
        ..QuotaResource::default()
    }
}

fn quotas() -> Vec<QuotaStatus> {
    let quota = |namespace: &str, name: &str, parent: &str, resources| QuotaStatus {
        namespace: namespace.to_owned(),
        name: name.to_owned(),
        parent: parent.to_owned(),
        is_parent: name == "dept",
        pods: Some(12),
        claims: 1,
        resources,
        ..QuotaStatus::default()
    };
    vec![
        quota(
            "org",
            "dept",
            "koordinator-root-quota",
            vec![resource("cpu", "0", None, "40")],
        ),
        quota(
            "team",
            "lab",
            "dept",
            vec![
                resource("cpu", "31", Some("1"), "8"),
                resource("memory", "64Gi", None, "-24Gi"),
            ],
        ),
        quota("team", "web\u{1b}[2J", "dept", Vec::new()),
    ]
}

fn sight() -> QuotaSight {
    QuotaSight {
        replica: "webhook-0".to_owned(),
        quotas_known: true,
        quotas_age_ms: Some(400),
        pods_known: true,
        pods_age_ms: Some(200),
        evaluation: "refuses".to_owned(),
        quotas: 3,
        quota_claims: 0,
        pods: 36,
        pod_claims: 1,
    }
}

fn verdict() -> QuotaVerdict {
    QuotaVerdict {
        result: "refused".to_owned(),
        reasons: vec!["memory=1: 64Gi of 40Gi are used".to_owned()],
    }
}

#[tonic::async_trait]
impl QuotaDebug for Quotas {
    async fn list_quotas(
        &self,
        request: Request<ListQuotasRequest>,
    ) -> Result<Response<ListQuotasResponse>, Status> {
        Webhook::authenticate(&request)?;
        let place = |quota: &QuotaStatus| QuotaName {
            namespace: quota.namespace.clone(),
            name: quota.name.clone(),
        };
        let after = request.into_inner().after;
        let key = |name: &QuotaName| (name.namespace.clone(), name.name.clone());
        let is_later =
            |quota: &QuotaStatus| after.as_ref().is_none_or(|after| key(&place(quota)) > key(after));
        let rest: Vec<QuotaStatus> = quotas().into_iter().filter(is_later).collect();
        let page: Vec<QuotaStatus> = rest.iter().take(2).cloned().collect();
        let next = (rest.len() > page.len()).then(|| place(page.last().unwrap()));
        Ok(Response::new(ListQuotasResponse {
            sight: Some(sight()),
            quotas: page,
            next,
        }))
    }

    async fn explain_quota(
        &self,
        request: Request<ExplainQuotaRequest>,
    ) -> Result<Response<ExplainQuotaResponse>, Status> {
        Webhook::authenticate(&request)?;
        let asked = request.into_inner();
        let found = quotas().into_iter().find(|quota| quota.name == asked.name);
        let nearest = QuotaName {
            namespace: "team".to_owned(),
            name: "lab".to_owned(),
        };
        let namespace = |namespace: &str, quota: &str, rule: &str, counts| QuotaNamespace {
            namespace: namespace.to_owned(),
            quota: quota.to_owned(),
            rule: rule.to_owned(),
            counts,
        };
        Ok(Response::new(ExplainQuotaResponse {
            sight: Some(sight()),
            nearest: if found.is_some() {
                Vec::new()
            } else {
                vec![nearest]
            },
            quotas: found
                .into_iter()
                .map(|quota| ExplainedQuota {
                    status: Some(quota),
                    uid: "u1".to_owned(),
                    above: vec!["dept".to_owned()],
                    way_end: "root".to_owned(),
                    namespaces: vec![
                        namespace("lab", "lab", "like-named", true),
                        namespace("shop", "web", "listed", false),
                    ],
                    of_the_name: 1,
                    verdict: Some(verdict()),
                    faults: vec!["resourceKey memory of quota lab min 10 > max 4".to_owned()],
                    noted: r#"{"cpu":"31"}"#.to_owned(),
                    ..ExplainedQuota::default()
                })
                .collect(),
        }))
    }

    async fn explain_quota_pod(
        &self,
        request: Request<ExplainQuotaPodRequest>,
    ) -> Result<Response<ExplainQuotaPodResponse>, Status> {
        Webhook::authenticate(&request)?;
        let amount = PodAmount {
            resource: "cpu".to_owned(),
            amount: "2".to_owned(),
        };
        Ok(Response::new(ExplainQuotaPodResponse {
            sight: Some(sight()),
            is_known: true,
            label: "lab".to_owned(),
            quota: "lab".to_owned(),
            rule: "label".to_owned(),
            requested: vec![amount],
            verdict: Some(verdict()),
            quotas: quotas().into_iter().filter(|quota| quota.name == "lab").collect(),
            is_counted: true,
        }))
    }
}

#[tokio::test]
async fn quotas_are_drawn_below_their_parents_page_by_page() {
    let webhook = Running::start().await;
    assert_snapshot!(webhook.ask(&["quota", "tree"]).await.unwrap());
    assert_snapshot!(webhook.ask(&["quota", "tree", "--usage", "dept"]).await.unwrap());
    let json = webhook.ask(&["quota", "tree", "-o", "json"]).await.unwrap();
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["quotas"].as_array().unwrap().len(), 3);
    assert_eq!(json["quotas"][1]["resources"][0]["left"], "8");
    assert_eq!(json["replicas"][0]["answer"]["pod_claims"], 1);
}

#[tokio::test]
async fn a_quota_and_the_quota_of_a_pod_are_explained() {
    let webhook = Running::start().await;
    assert_snapshot!(webhook.ask(&["quota", "explain", "team/lab"]).await.unwrap());
    assert_snapshot!(
        webhook
            .ask(&["quota", "explain", "pod/shop/web-0"])
            .await
            .unwrap()
    );
    for (subject, pointer) in [
        ("lab", "/0/answer/quotas/0/verdict/result"),
        ("pod/shop/web-0", "/replicas/0/answer/verdict/result"),
    ] {
        let json = webhook
            .ask(&["quota", "explain", subject, "-o", "json"])
            .await
            .unwrap();
        let json: Value = serde_json::from_str(&json).unwrap();
        assert_eq!(json.pointer(pointer), Some(&"refused".into()), "{json}");
    }
}

#[tokio::test]
async fn an_unknown_quota_gets_the_nearest_names() {
    let webhook = Running::start().await;
    for (command, expected) in [
        (
            &["quota", "explain", "lub"][..],
            "the webhook does not know quota lub; the nearest names are team/lab",
        ),
        (
            &["quota", "tree", "team/lub"],
            "the webhook does not know quota team/lub",
        ),
    ] {
        let error = webhook.ask(command).await.unwrap_err();
        assert_eq!(error.to_string(), expected);
    }
}
