//! Asks the API server every ten minutes whether this replica's account has the generated rights: a role that was
//! edited or not updated shows as a finding instead of as a failed request later.

use std::{sync::Arc, time::Duration};

use arc_swap::ArcSwap;
use headroom_kit::log::chain;
use k8s_openapi::api::{
    authorization::v1::{ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec},
    rbac::v1::PolicyRule,
};
use kube::{Api, Client, api::PostParams};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

use super::{INSTALL_CHECK_LIMIT, metrics::MISSING_RIGHTS};
use crate::install::manifest::Rights;

/// Pause between two rounds.
const EVERY: Duration = Duration::from_secs(600);
/// Pause after a round that the API server did not finish.
const RETRY_AFTER: Duration = Duration::from_secs(30);
/// Pause between two questions.
const BETWEEN: Duration = Duration::from_millis(20);

/// Rights that the account lacks, as texts such as `patch nodes/status`.
pub type MissingRights = Arc<ArcSwap<Vec<String>>>;

/// Asks until `stop` is cancelled, and keeps `missing` current. The last result stays while the API server does not
/// answer.
pub async fn follow(client: Client, rights: Vec<Rights>, missing: MissingRights, stop: CancellationToken) {
    let questions = questions(&rights);
    let rounds = async {
        loop {
            let pause = match ask_all(&client, &questions).await {
                Ok(denied) => {
                    report(denied, &missing);
                    EVERY
                }
                Err(reason) => {
                    debug!(reason, "could not review our own rights; retrying");
                    RETRY_AFTER
                }
            };
            sleep(pause).await;
        }
    };
    stop.run_until_cancelled(rounds).await;
}

fn report(denied: Vec<String>, missing: &MissingRights) {
    MISSING_RIGHTS
        .with([])
        .set(f64::from(u32::try_from(denied.len()).unwrap_or(u32::MAX)));
    if !denied.is_empty() && **missing.load() != denied {
        warn!(
            missing = denied.join(", "),
            "our account lacks rights; apply the roles of this version"
        );
    }
    missing.store(Arc::new(denied));
}

async fn ask_all(client: &Client, questions: &[ResourceAttributes]) -> Result<Vec<String>, String> {
    let mut denied = Vec::new();
    for question in questions {
        let asked = timeout(INSTALL_CHECK_LIMIT, ask(client, question.clone())).await;
        let asked = asked.map_err(|_elapsed| "the API server did not answer in time".to_owned())?;
        if !asked.map_err(|error| chain(&error).to_string())? {
            denied.push(described(question));
        }
        sleep(BETWEEN).await;
    }
    Ok(denied)
}

async fn ask(client: &Client, question: ResourceAttributes) -> kube::Result<bool> {
    let review = SelfSubjectAccessReview {
        spec: SelfSubjectAccessReviewSpec {
            resource_attributes: Some(question),
            ..SelfSubjectAccessReviewSpec::default()
        },
        ..SelfSubjectAccessReview::default()
    };
    let reviews: Api<SelfSubjectAccessReview> = Api::all(client.clone());
    let answer = reviews.create(&PostParams::default(), &review).await?;
    Ok(answer.status.is_some_and(|status| status.allowed))
}

/// One question for each verb, resource and name of the generated roles.
fn questions(rights: &[Rights]) -> Vec<ResourceAttributes> {
    let mut questions = Vec::new();
    for Rights { role, namespaces, .. } in rights {
        for rule in role.rules.iter().flatten() {
            questions.extend(questions_of_rule(rule, None));
        }
        for namespace in namespaces {
            for rule in namespace.role.rules.iter().flatten() {
                let namespace = namespace.role.metadata.namespace.as_deref();
                questions.extend(questions_of_rule(rule, namespace));
            }
        }
    }
    questions
}

fn questions_of_rule(rule: &PolicyRule, namespace: Option<&str>) -> Vec<ResourceAttributes> {
    let names: Vec<Option<String>> = match &rule.resource_names {
        Some(names) => names.iter().cloned().map(Some).collect(),
        None => vec![None],
    };
    let mut questions = Vec::new();
    for group in rule.api_groups.iter().flatten() {
        for resource in rule.resources.iter().flatten() {
            let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
            for verb in &rule.verbs {
                questions.extend(names.iter().map(|name| ResourceAttributes {
                    group: Some(group.clone()),
                    resource: Some(resource.to_owned()),
                    subresource: Some(subresource.to_owned()),
                    verb: Some(verb.clone()),
                    namespace: namespace.map(str::to_owned),
                    name: name.clone(),
                    ..ResourceAttributes::default()
                }));
            }
        }
    }
    questions
}

fn described(question: &ResourceAttributes) -> String {
    let part = |part: &Option<String>| part.clone().unwrap_or_default();
    let mut text = format!("{} {}", part(&question.verb), part(&question.resource));
    for (lead, part) in [
        ("/", part(&question.subresource)),
        (".", part(&question.group)),
        (" ", part(&question.name)),
        (" in namespace ", part(&question.namespace)),
    ] {
        if !part.is_empty() {
            text.extend([lead, &part]);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use headroom_domain::installation::Installation;

    use super::*;
    use crate::{admission::endpoints::ENDPOINTS, start::rights::rights};

    #[test]
    fn every_generated_right_is_one_question() {
        let rights = rights(&Installation::default(), ENDPOINTS);
        let questions = questions(&rights);
        let texts: Vec<_> = questions.iter().map(described).collect();
        for expected in [
            "patch nodes/status",
            "update secrets headroom-webhook-certs in namespace headroom-system",
            "watch elasticquotas.scheduling.sigs.k8s.io",
        ] {
            assert!(
                texts.iter().any(|text| text == expected),
                "{expected}: {texts:#?}"
            );
        }
        let distinct: std::collections::BTreeSet<_> = texts.iter().collect();
        assert!(questions.len() < 250, "{} questions", questions.len());
        assert!(distinct.len() > 30, "{texts:?}");
    }
}
