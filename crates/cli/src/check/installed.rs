//! The rows of an installation: registration, floor, agents, certificate, versions.

use std::collections::{BTreeMap, BTreeSet};

use headroom_domain::names;
use headroom_proto::v1alpha1::GetInstallationResponse;

use super::{CheckRow, Sentences, Severity, Witness, evidence::Evidence};

/// A certificate that ends within this is about to expire, in seconds: two weeks. The webhook's own is due for renewal 30 days before
/// its end, and cert-manager's usually a third of its life.
const EXPIRES_SOON_S: i64 = 14 * 86_400;
/// Seconds of a day and of an hour.
const DAY_S: i64 = 86_400;
const HOUR_S: i64 = 3_600;

/// The code of [`NOT_REGISTERED`], by which others tell that no write is decided.
pub const NOT_REGISTERED_CODE: &str = "not-registered";
/// The code of [`REGISTRATION_DIFFERS`].
pub const REGISTRATION_DIFFERS_CODE: &str = "registration-differs";

/// Every row, in the order of their findings.
pub static INSTALLED: &[&CheckRow] = &[
    &WEBHOOK_UNREACHABLE,
    &NOT_REGISTERED,
    &NO_FLOOR,
    &CERTIFICATE_EXPIRING,
    &REGISTRATION_DIFFERS,
    &NOT_SYNCED,
    &AGENTS_SILENT,
    &ANNOTATIONS_UNPROTECTED,
    &VERSIONS_DIFFER,
    &FLOOR_ACCEPTED,
];

static WEBHOOK_UNREACHABLE: CheckRow = CheckRow {
    code: "webhook-unreachable",
    severity: Severity::Error,
    witness: Witness::Both,
    about: "A replica of the webhook does not answer, or none is ready. Without any, the floor keeps what nodes have, and no ratio changes.",
    mend: "See the replicas with `kubectl -n headroom-system get pods` and their logs.",
    find: |evidence| Ok(evidence.unreached.clone()),
};

static NOT_REGISTERED: CheckRow = CheckRow {
    code: NOT_REGISTERED_CODE,
    severity: Severity::Error,
    witness: Witness::Both,
    about: "The API server has no entry for an endpoint that is switched on. Writes pass without the webhook: for `mutate-node-status` no node gets or loses anything, whatever its mode.",
    mend: "Apply the manifests of the webhook's version again: they bring MutatingWebhookConfiguration and ValidatingWebhookConfiguration.",
    find: not_registered,
};

static REGISTRATION_DIFFERS: CheckRow = CheckRow {
    code: REGISTRATION_DIFFERS_CODE,
    severity: Severity::Warning,
    witness: Witness::Replicas,
    about: "An entry in the webhook configurations is not as this version generates it, or has the CA of another certificate. Writes may pass without the webhook, or wait for it too long.",
    mend: "Delete the configuration and apply the manifests again: applying alone leaves fields that others added.",
    find: |evidence| faults(evidence, false, "the registration of"),
};

static NO_FLOOR: CheckRow = CheckRow {
    code: "no-floor",
    severity: Severity::Error,
    witness: Witness::Replicas,
    about: "The API server does not keep the floor. `guard` and `auto` raise nothing, and while no webhook answers nodes fall to raw.",
    mend: "Apply the policies of the webhook's version on an API server of 1.36 or later; else read docs/floor.md before --accept-no-floor.",
    find: |evidence| floor(evidence, false),
};

static FLOOR_ACCEPTED: CheckRow = CheckRow {
    code: "floor-accepted",
    severity: Severity::Notice,
    witness: Witness::Replicas,
    about: "The API server does not keep the floor, and the webhook was told with --accept-no-floor to raise nodes all the same.",
    mend: "Nothing, where that is meant; docs/floor.md says what an outage does.",
    find: |evidence| floor(evidence, true),
};

static ANNOTATIONS_UNPROTECTED: CheckRow = CheckRow {
    code: "annotations-unprotected",
    severity: Severity::Warning,
    witness: Witness::Replicas,
    about: "The floor is in force, and the policy that reverts kubelets' writes to protected annotations is not. While no webhook answers, a node can write its own ratio.",
    mend: "Apply the policies of the webhook's version again.",
    find: annotations,
};

static AGENTS_SILENT: CheckRow = CheckRow {
    code: "agents-silent",
    severity: Severity::Warning,
    witness: Witness::Replicas,
    about: "Nodes in `guard` or `auto` have no report that counts any more. They get no more than raw, or what their pods hold.",
    mend: "See the agents with `kubectl -n headroom-agent get pods -o wide`, and \"The agent cannot report\" in docs/patterns.md.",
    find: silent,
};

static CERTIFICATE_EXPIRING: CheckRow = CheckRow {
    code: "certificate-expiring",
    severity: Severity::Error,
    witness: Witness::Replicas,
    about: "The webhook's serving certificate ends within two weeks. After its end neither the API server nor agents talk to it.",
    mend: "Renew the Secret headroom-webhook-certs (cert-manager: see its Certificate); with --tls-self-signed-dir restart the replicas.",
    find: certificate,
};

static NOT_SYNCED: CheckRow = CheckRow {
    code: "not-synced",
    severity: Severity::Warning,
    witness: Witness::Replicas,
    about: "A replica does not know Nodes, pods or Koordinator's ConfigMap. It lowers nothing and leaves ratios as they were.",
    mend: "Its log and `caches` on its /readyz say what is missing; most often it is a right.",
    find: not_synced,
};

static VERSIONS_DIFFER: CheckRow = CheckRow {
    code: "versions-differ",
    severity: Severity::Warning,
    witness: Witness::Replicas,
    about: "This program, the replicas and the agents are of different versions. That is so during an update; what is new in one may be missing in another.",
    mend: "Finish the update; `kubectl headroom` is to be of the webhook's version.",
    find: versions,
};

fn not_registered(evidence: &Evidence) -> Sentences {
    let missing = faults(evidence, true, "the API server does not call the webhook for");
    if evidence.is_configured != Ok(false) {
        return missing;
    }
    let told = missing.unwrap_or_default();
    if !told.is_empty() {
        return Ok(told);
    }
    let name = evidence.installation.named(names::WEBHOOK_CONFIGURATION);
    Ok(vec![format!(
        "the API server does not call the webhook: there is no MutatingWebhookConfiguration {name}"
    )])
}

/// One sentence for each endpoint with a fault of that kind, whichever replica knows it.
fn faults(evidence: &Evidence, is_missing: bool, lead: &str) -> Sentences {
    let mut faults: BTreeMap<&str, &str> = BTreeMap::new();
    for answer in evidence.answers()? {
        let endpoints = answer.endpoints.iter();
        for endpoint in
            endpoints.filter(|endpoint| !endpoint.fault.is_empty() && endpoint.missing == is_missing)
        {
            faults.entry(&endpoint.endpoint).or_insert(&endpoint.fault);
        }
    }
    let sentences = faults
        .into_iter()
        .map(|(endpoint, fault)| format!("{lead} {endpoint}: {fault}"));
    Ok(sentences.collect())
}

fn floor(evidence: &Evidence, is_accepted: bool) -> Sentences {
    let answers = evidence.answers()?.iter();
    let troubles = answers.filter_map(|answer| {
        let floor = answer.floor.as_ref()?;
        (!floor.trouble.is_empty() && floor.accepted == is_accepted).then(|| floor.trouble.clone())
    });
    Ok(each_once(troubles))
}

fn annotations(evidence: &Evidence) -> Sentences {
    let answers = evidence.answers()?.iter();
    let has_floor = |answer: &&GetInstallationResponse| {
        answer
            .floor
            .as_ref()
            .is_some_and(|floor| floor.trouble.is_empty())
    };
    let troubles = answers
        .filter(has_floor)
        .map(|answer| &answer.annotations_trouble);
    Ok(each_once(troubles.filter(|trouble| !trouble.is_empty()).cloned()))
}

/// By the replica that hears most: agents report to three of them.
fn silent(evidence: &Evidence) -> Sentences {
    let answers = evidence.answers()?.iter().filter(|answer| answer.has_synced);
    let Some(answer) = answers.min_by_key(|answer| answer.silent_nodes) else {
        return Err("no replica knows the nodes".to_owned());
    };
    let GetInstallationResponse {
        nodes,
        silent_nodes,
        silent_examples,
        ..
    } = answer;
    if *silent_nodes == 0 {
        return Ok(Vec::new());
    }
    let named = u32::try_from(silent_examples.len()).unwrap_or(u32::MAX);
    let more = match silent_nodes.saturating_sub(named) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    Ok(vec![format!(
        "no report counts any more of {silent_nodes} of {nodes} nodes that are to follow one: {}{more}",
        silent_examples.join(", ")
    )])
}

fn certificate(evidence: &Evidence) -> Sentences {
    let answers = evidence.answers()?.iter();
    let ending = answers.filter(|answer| answer.certificate_left_s < EXPIRES_SOON_S);
    let sentences = ending.map(|answer| {
        let (replica, left_s) = (&answer.replica, answer.certificate_left_s);
        let when = match left_s {
            ..=0 => "has ended".to_owned(),
            1..DAY_S => format!("ends in {}h", left_s / HOUR_S),
            _ => format!("ends in {} days", left_s / DAY_S),
        };
        format!("the certificate of replica {replica} {when}")
    });
    Ok(sentences.collect())
}

fn not_synced(evidence: &Evidence) -> Sentences {
    let answers = evidence.answers()?.iter();
    let unknowing = answers.filter(|answer| !answer.has_synced);
    let sentences =
        unknowing.map(|answer| format!("replica {} does not know the cluster's objects", answer.replica));
    Ok(sentences.collect())
}

fn versions(evidence: &Evidence) -> Sentences {
    let ours = evidence.client_version.as_str();
    let older = evidence
        .older_replicas
        .iter()
        .map(|replica| format!("{replica} is older than this kubectl-headroom ({ours})"));
    let mut sentences: Vec<String> = older.collect();
    let answers = match &evidence.replicas {
        Ok(answers) => answers,
        Err(reason) if sentences.is_empty() => return Err(reason.clone()),
        Err(_) => return Ok(sentences),
    };
    let replicas = answers.iter().filter(|answer| answer.version != ours);
    sentences.extend(replicas.map(|answer| {
        format!(
            "replica {} is of version {}, this kubectl-headroom of {ours}",
            answer.replica, answer.version
        )
    }));
    let of_webhook: BTreeSet<&str> = answers.iter().map(|answer| answer.version.as_str()).collect();
    let mut agents: BTreeMap<&str, u32> = BTreeMap::new();
    for (version, count) in answers.iter().flat_map(|answer| &answer.agents_by_version) {
        // An agent has a stream to each of several replicas.
        let most = agents.entry(version).or_default();
        *most = (*count).max(*most);
    }
    let other = agents
        .into_iter()
        .filter(|(version, _)| !of_webhook.contains(version));
    sentences.extend(other.map(|(version, count)| {
        let version = if version.is_empty() {
            "an earlier version"
        } else {
            version
        };
        let webhook = of_webhook.iter().copied().collect::<Vec<_>>().join(", ");
        format!("{count} agents are of {version}, the webhook of {webhook}")
    }));
    Ok(sentences)
}

fn each_once(sentences: impl Iterator<Item = String>) -> Vec<String> {
    let sentences: BTreeSet<String> = sentences.collect();
    sentences.into_iter().collect()
}

#[cfg(test)]
pub(crate) mod tests {
    use headroom_domain::installation::Installation;
    use headroom_proto::v1alpha1::{EndpointRegistration, FloorStatus};
    use rstest::rstest;

    use super::*;
    use crate::check::CheckReport;

    /// A replica with which nothing is wrong.
    pub(crate) fn healthy() -> GetInstallationResponse {
        let version = env!("CARGO_PKG_VERSION").to_owned();
        GetInstallationResponse {
            replica: "webhook-a".to_owned(),
            version: version.clone(),
            endpoints: vec![EndpointRegistration {
                endpoint: "mutate-node-status".to_owned(),
                ..EndpointRegistration::default()
            }],
            floor: Some(FloorStatus::default()),
            certificate_left_s: 90 * DAY_S,
            has_synced: true,
            nodes: 3,
            agents_by_version: [(version, 3)].into(),
            ..GetInstallationResponse::default()
        }
    }

    fn found(evidence: &Evidence) -> Vec<(&'static str, String)> {
        let report = CheckReport::new(INSTALLED, evidence);
        assert_eq!(report.open, []);
        let findings = report.findings.into_iter();
        findings.map(|found| (found.code, found.sentence)).collect()
    }

    fn with_answers(answers: Vec<GetInstallationResponse>) -> Evidence {
        Evidence {
            replicas: Ok(answers),
            is_configured: Ok(true),
            ..Evidence::default()
        }
    }

    fn register(answer: &mut GetInstallationResponse, fault: &str, missing: bool) {
        answer.endpoints[0].fault = fault.to_owned();
        answer.endpoints[0].missing = missing;
    }

    fn floor_of(answer: &mut GetInstallationResponse, accepted: bool) {
        let trouble = "no floor: policy headroom-floor or its binding is not installed".to_owned();
        answer.floor = Some(FloorStatus { trouble, accepted });
    }

    #[test]
    fn nothing_is_found_where_nothing_is_wrong() {
        assert_eq!(found(&with_answers(vec![healthy(), healthy()])), []);
    }

    #[rstest]
    #[case::not_registered(
        |answer: &mut GetInstallationResponse| register(answer, "there is no entry a", true),
        "not-registered",
        "the API server does not call the webhook for mutate-node-status: there is no entry a"
    )]
    #[case::registered_otherwise(
        |answer: &mut GetInstallationResponse| register(answer, "a.timeoutSeconds is 30, must be 1", false),
        "registration-differs",
        "the registration of mutate-node-status: a.timeoutSeconds is 30, must be 1"
    )]
    #[case::no_floor(
        |answer: &mut GetInstallationResponse| floor_of(answer, false),
        "no-floor",
        "no floor: policy headroom-floor or its binding is not installed"
    )]
    #[case::no_floor_and_accepted(
        |answer: &mut GetInstallationResponse| floor_of(answer, true),
        "floor-accepted",
        "no floor: policy headroom-floor or its binding is not installed"
    )]
    #[case::annotations(
        |answer: &mut GetInstallationResponse| answer.annotations_trouble = "policy x is not installed".to_owned(),
        "annotations-unprotected",
        "policy x is not installed"
    )]
    #[case::silent(
        |answer: &mut GetInstallationResponse| {
            answer.silent_nodes = 2;
            answer.silent_examples = vec!["a".to_owned(), "b".to_owned()];
        },
        "agents-silent",
        "no report counts any more of 2 of 3 nodes that are to follow one: a, b"
    )]
    #[case::many_are_silent(
        |answer: &mut GetInstallationResponse| {
            (answer.nodes, answer.silent_nodes) = (90, 80);
            answer.silent_examples = vec!["a".to_owned()];
        },
        "agents-silent",
        "no report counts any more of 80 of 90 nodes that are to follow one: a and 79 more"
    )]
    #[case::expiring(
        |answer: &mut GetInstallationResponse| answer.certificate_left_s = EXPIRES_SOON_S - 1,
        "certificate-expiring",
        "the certificate of replica webhook-a ends in 13 days"
    )]
    #[case::expiring_today(
        |answer: &mut GetInstallationResponse| answer.certificate_left_s = 2 * HOUR_S + 1,
        "certificate-expiring",
        "the certificate of replica webhook-a ends in 2h"
    )]
    #[case::expired(
        |answer: &mut GetInstallationResponse| answer.certificate_left_s = -1,
        "certificate-expiring",
        "the certificate of replica webhook-a has ended"
    )]
    #[case::old_agents(
        |answer: &mut GetInstallationResponse| answer.agents_by_version = [(String::new(), 2)].into(),
        "versions-differ",
        &format!("2 agents are of an earlier version, the webhook of {}", env!("CARGO_PKG_VERSION"))
    )]
    fn each_row_finds_what_it_is_for_and_no_other_does(
        #[case] break_it: impl Fn(&mut GetInstallationResponse),
        #[case] code: &str,
        #[case] sentence: &str,
    ) {
        let mut answer = healthy();
        break_it(&mut answer);
        assert_eq!(found(&with_answers(vec![answer])), [(code, sentence.to_owned())]);
    }

    #[test]
    fn a_replica_that_does_not_know_the_cluster_says_nothing_of_agents() {
        let mut answer = healthy();
        answer.has_synced = false;
        answer.silent_nodes = 3;
        let report = CheckReport::new(INSTALLED, &with_answers(vec![answer]));
        assert_eq!(report.findings[0].code, "not-synced");
        assert_eq!(report.open[0].code, "agents-silent");
    }

    #[test]
    fn a_replica_of_another_version_is_named_and_so_is_an_older_one() {
        let ours = env!("CARGO_PKG_VERSION");
        let mut answer = healthy();
        answer.version = "9.0.0".to_owned();
        answer.agents_by_version = [("9.0.0".to_owned(), 1)].into();
        let told = format!("replica webhook-a is of version 9.0.0, this kubectl-headroom of {ours}");
        assert_eq!(found(&with_answers(vec![answer])), [("versions-differ", told)]);
        let older = Evidence::of_replica(Installation::default(), None);
        let report = CheckReport::new(INSTALLED, &older);
        assert_eq!(
            report.findings[0].sentence,
            format!("the webhook is older than this kubectl-headroom ({ours})")
        );
        assert!(
            report.open.iter().any(|open| open.code == "not-registered"),
            "{report:?}"
        );
    }

    #[test]
    fn the_replica_that_hears_most_speaks_for_the_agents() {
        let mut deaf = healthy();
        deaf.silent_nodes = 3;
        assert_eq!(found(&with_answers(vec![deaf, healthy()])), []);
    }

    #[test]
    fn a_configuration_that_is_gone_is_found_without_any_replica() {
        let evidence = Evidence {
            is_configured: Ok(false),
            ..Evidence::default()
        };
        let report = CheckReport::new(INSTALLED, &evidence);
        assert_eq!(
            (report.findings[0].code, report.findings[0].sentence.as_str()),
            (
                "not-registered",
                "the API server does not call the webhook: there is no MutatingWebhookConfiguration headroom-webhook"
            )
        );
        let mut answer = healthy();
        register(&mut answer, "there is no entry a", true);
        let evidence = Evidence {
            is_configured: Ok(false),
            ..with_answers(vec![answer])
        };
        assert_eq!(found(&evidence).len(), 1, "the replica tells more");
    }

    #[test]
    fn replicas_that_do_not_answer_are_told_with_the_reason() {
        let evidence = Evidence {
            unreached: vec!["cannot connect to pod a".to_owned()],
            ..with_answers(vec![healthy()])
        };
        let told = ("webhook-unreachable", "cannot connect to pod a".to_owned());
        assert_eq!(found(&evidence), [told]);
    }
}
