//! Rows for an installation: registration, floor, agents, certificate, versions.

use std::collections::{BTreeMap, BTreeSet};

use headroom_domain::names;
use headroom_proto::v1alpha1::GetInstallationResponse;

use super::{
    CheckRow, CheckSource, Messages, Severity,
    access::{CALLERS_ANY, CALLERS_UNPROVEN, NOT_CALLED, RIGHTS_MISSING},
    evidence::Evidence,
};

/// Certificates that expire within this time are reported, in seconds: two weeks. Managed certificates of 90 days are
/// renewed 30 days before their expiry, and cert-manager usually renews when a third of the lifetime is left.
const EXPIRES_SOON_S: i64 = 14 * 86_400;
const DAY_S: i64 = 86_400;
const HOUR_S: i64 = 3_600;

/// Code of [`NOT_REGISTERED`]; with this finding, the webhook decides no status write.
pub const NOT_REGISTERED_CODE: &str = "not-registered";
pub const REGISTRATION_DIFFERS_CODE: &str = "registration-differs";

/// All rows, in the order of their findings.
pub static INSTALLED: &[&CheckRow] = &[
    &WEBHOOK_UNREACHABLE,
    &NOT_REGISTERED,
    &NOT_CALLED,
    &NO_FLOOR,
    &CERTIFICATE_EXPIRING,
    &CA_EXPIRING,
    &CERTIFICATES_PROBLEM,
    &REGISTRATION_DIFFERS,
    &RIGHTS_MISSING,
    &NOT_SYNCED,
    &AGENTS_SILENT,
    &ANNOTATIONS_UNPROTECTED,
    &VERSIONS_DIFFER,
    &FLOOR_ACCEPTED,
    &CALLERS_UNPROVEN,
    &CALLERS_ANY,
];

static WEBHOOK_UNREACHABLE: CheckRow = CheckRow {
    code: "webhook-unreachable",
    severity: Severity::Error,
    source: CheckSource::Both,
    about: "A replica of the webhook does not answer, or none is ready. Without any replica, the floor keeps the allocatable of nodes, and no ratio changes.",
    fix: "Check the replicas with `kubectl -n headroom-system get pods`, and their logs.",
    find: |evidence| Ok(evidence.unreached.clone()),
};

static NOT_REGISTERED: CheckRow = CheckRow {
    code: NOT_REGISTERED_CODE,
    severity: Severity::Error,
    source: CheckSource::Both,
    about: "The API server has no webhook entry for an enabled endpoint, so writes bypass the webhook. Without `mutate-node-status`, no allocatable changes, in any mode.",
    fix: "Apply the manifests of the webhook's version again: they contain the MutatingWebhookConfiguration and the ValidatingWebhookConfiguration.",
    find: not_registered,
};

static REGISTRATION_DIFFERS: CheckRow = CheckRow {
    code: REGISTRATION_DIFFERS_CODE,
    severity: Severity::Warning,
    source: CheckSource::Replicas,
    about: "An entry in the webhook configurations differs from the manifests of this version, or has the CA of another certificate. Writes may bypass the webhook, or wait for it too long.",
    fix: "Delete the configuration and apply the manifests again: applying alone keeps fields that other controllers added.",
    find: |evidence| faults(evidence, false, "wrong registration of"),
};

static NO_FLOOR: CheckRow = CheckRow {
    code: "no-floor",
    severity: Severity::Error,
    source: CheckSource::Replicas,
    about: "The API server does not keep the floor. Modes `guard` and `auto` raise no node, and nodes fall to raw while no webhook answers.",
    fix: "Apply the policies of the webhook's version on an API server of 1.36 or later; on an older one, read docs/floor.md before you set --accept-no-floor.",
    find: |evidence| floor(evidence, false),
};

static FLOOR_ACCEPTED: CheckRow = CheckRow {
    code: "floor-accepted",
    severity: Severity::Notice,
    source: CheckSource::Replicas,
    about: "The API server does not keep the floor, and --accept-no-floor lets the webhook raise nodes anyway.",
    fix: "None needed if this is intended; docs/floor.md describes the effect of an outage.",
    find: |evidence| floor(evidence, true),
};

static ANNOTATIONS_UNPROTECTED: CheckRow = CheckRow {
    code: "annotations-unprotected",
    severity: Severity::Warning,
    source: CheckSource::Replicas,
    about: "The floor is in force, but the policy that reverts kubelets' writes to protected annotations is not. While no webhook answers, a node can set its own ratio.",
    fix: "Apply the policies of the webhook's version again.",
    find: annotations,
};

static AGENTS_SILENT: CheckRow = CheckRow {
    code: "agents-silent",
    severity: Severity::Warning,
    source: CheckSource::Replicas,
    about: "Nodes in `guard` or `auto` have no recent agent report. Their allocatable is at most raw, or the requests of their pods if those are higher.",
    fix: "Check the agents with `kubectl -n headroom-agent get pods -o wide`, or `kubectl -n headroom-agent describe daemonset` if a node has none, and \"The agent cannot report\" in docs/patterns.md.",
    find: silent,
};

static CERTIFICATE_EXPIRING: CheckRow = CheckRow {
    code: "certificate-expiring",
    severity: Severity::Error,
    source: CheckSource::Replicas,
    about: "The webhook's serving certificate expires within two weeks. The API server and the agents then refuse to connect.",
    fix: "With managed certificates see the finding certificates-problem; with cert-manager check its Certificate; with files renew them, and with --tls-self-signed-dir restart the replicas.",
    find: certificate,
};

static CA_EXPIRING: CheckRow = CheckRow {
    code: "ca-expiring",
    severity: Severity::Error,
    source: CheckSource::Replicas,
    about: "A CA that the API server and the agents trust expires within two weeks. The webhook replaces its own CA after two thirds of its life.",
    fix: "See the finding certificates-problem; if another program writes the Secret headroom-webhook-certs, renew its CA there.",
    find: authority,
};

static CERTIFICATES_PROBLEM: CheckRow = CheckRow {
    code: "certificates-problem",
    severity: Severity::Warning,
    source: CheckSource::Replicas,
    about: "The newest certificates cannot be used, an object does not have the CA bundle, the clocks of a replica and of the API server differ, or replicas publish different CAs. The certificate before it stays in use.",
    fix: "The finding names the object and the reason. docs/upgrade.md describes the sources of certificates; the usual causes are a missing right, a policy, and another program that writes the Secret.",
    find: certificates,
};

static NOT_SYNCED: CheckRow = CheckRow {
    code: "not-synced",
    severity: Severity::Warning,
    source: CheckSource::Replicas,
    about: "A replica has not synced Nodes, pods or Koordinator's ConfigMap. It lowers nothing and keeps ratios as they are.",
    fix: "Check the replica's log and `caches` on its /readyz; the usual cause is a missing permission.",
    find: not_synced,
};

static VERSIONS_DIFFER: CheckRow = CheckRow {
    code: "versions-differ",
    severity: Severity::Warning,
    source: CheckSource::Replicas,
    about: "This program, the replicas and the agents have different versions. This is normal during an update; new features of one may be missing in another.",
    fix: "Finish the update, and use the `kubectl headroom` of the webhook's version.",
    find: versions,
};

fn not_registered(evidence: &Evidence) -> Messages {
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
        "the API server does not call the webhook: MutatingWebhookConfiguration {name} does not exist"
    )])
}

/// One message for each endpoint with a fault of that kind, from any replica.
fn faults(evidence: &Evidence, is_missing: bool, lead: &str) -> Messages {
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

fn floor(evidence: &Evidence, is_accepted: bool) -> Messages {
    let answers = evidence.answers()?.iter();
    let troubles = answers.filter_map(|answer| {
        let floor = answer.floor.as_ref()?;
        (!floor.trouble.is_empty() && floor.accepted == is_accepted).then(|| floor.trouble.clone())
    });
    Ok(each_once(troubles))
}

fn annotations(evidence: &Evidence) -> Messages {
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

/// Uses the replica with the most reports, because each agent reports to three replicas only.
fn silent(evidence: &Evidence) -> Messages {
    let answers = evidence.answers()?.iter().filter(|answer| answer.has_synced);
    let Some(answer) = answers.min_by_key(|answer| answer.silent_nodes) else {
        return Err("no replica has synced the nodes".to_owned());
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
    let have = if *silent_nodes == 1 { "has" } else { "have" };
    Ok(vec![format!(
        "{silent_nodes} of {nodes} managed nodes {have} no recent agent report: {}{more}",
        silent_examples.join(", ")
    )])
}

fn certificate(evidence: &Evidence) -> Messages {
    let answers = evidence.answers()?.iter();
    let ending = answers.filter(|answer| answer.certificate_left_s < EXPIRES_SOON_S);
    let sentences = ending.map(|answer| {
        let (replica, left_s) = (&answer.replica, answer.certificate_left_s);
        let when = match left_s {
            ..=0 => "has expired".to_owned(),
            1..DAY_S => format!("expires in {}h", left_s / HOUR_S),
            _ => format!("expires in {} days", left_s / DAY_S),
        };
        format!("the certificate of replica {replica} {when}")
    });
    Ok(sentences.collect())
}

fn authority(evidence: &Evidence) -> Messages {
    let answers = evidence.answers()?.iter();
    let left = answers.filter_map(|answer| answer.certificates.as_ref()?.ca_left_s);
    let sentences = left
        .min()
        .filter(|left_s| *left_s < EXPIRES_SOON_S)
        .map(|left_s| match left_s {
            ..=0 => "a trusted CA has expired".to_owned(),
            1..DAY_S => format!("a trusted CA expires in {}h", left_s / HOUR_S),
            _ => format!("a trusted CA expires in {} days", left_s / DAY_S),
        });
    Ok(sentences.into_iter().collect())
}

fn certificates(evidence: &Evidence) -> Messages {
    let statuses = evidence.answers()?.iter();
    let statuses: Vec<_> = statuses
        .filter_map(|answer| answer.certificates.as_ref())
        .collect();
    let problems = statuses.iter().flat_map(|status| status.problems.iter().cloned());
    let mut sentences = each_once(problems);
    let bundles = statuses.iter().map(|status| status.bundle_sha256.as_str());
    let bundles: BTreeSet<_> = bundles.filter(|bundle| !bundle.is_empty()).collect();
    if bundles.len() > 1 {
        sentences.push(format!(
            "the replicas have {} different CA bundles",
            bundles.len()
        ));
    }
    Ok(sentences)
}

fn not_synced(evidence: &Evidence) -> Messages {
    let answers = evidence.answers()?.iter();
    let unknowing = answers.filter(|answer| !answer.has_synced);
    let sentences =
        unknowing.map(|answer| format!("replica {} has not synced the cluster's objects", answer.replica));
    Ok(sentences.collect())
}

fn versions(evidence: &Evidence) -> Messages {
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
            "replica {} has version {}, this kubectl-headroom {ours}",
            answer.replica, answer.version
        )
    }));
    let of_webhook: BTreeSet<&str> = answers.iter().map(|answer| answer.version.as_str()).collect();
    let mut agents: BTreeMap<&str, u32> = BTreeMap::new();
    for (version, count) in answers.iter().flat_map(|answer| &answer.agents_by_version) {
        // An agent has a stream to several replicas, so counts are not added up.
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
        let (agents, have) = if count == 1 {
            ("agent", "has")
        } else {
            ("agents", "have")
        };
        format!("{count} {agents} {have} {version}, the webhook {webhook}")
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
    use headroom_proto::v1alpha1::{
        CertificateStatus, EndpointRegistration, FloorStatus, ReachabilityStatus,
    };
    use rstest::rstest;

    use super::{super::access, *};
    use crate::check::CheckReport;

    /// Answer of a replica without problems.
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
    fn a_healthy_installation_has_no_finding() {
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
        "wrong registration of mutate-node-status: a.timeoutSeconds is 30, must be 1"
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
        "2 of 3 managed nodes have no recent agent report: a, b"
    )]
    #[case::many_are_silent(
        |answer: &mut GetInstallationResponse| {
            (answer.nodes, answer.silent_nodes) = (90, 80);
            answer.silent_examples = vec!["a".to_owned()];
        },
        "agents-silent",
        "80 of 90 managed nodes have no recent agent report: a and 79 more"
    )]
    #[case::expiring(
        |answer: &mut GetInstallationResponse| answer.certificate_left_s = EXPIRES_SOON_S - 1,
        "certificate-expiring",
        "the certificate of replica webhook-a expires in 13 days"
    )]
    #[case::expiring_today(
        |answer: &mut GetInstallationResponse| answer.certificate_left_s = 2 * HOUR_S + 1,
        "certificate-expiring",
        "the certificate of replica webhook-a expires in 2h"
    )]
    #[case::expired(
        |answer: &mut GetInstallationResponse| answer.certificate_left_s = -1,
        "certificate-expiring",
        "the certificate of replica webhook-a has expired"
    )]
    #[case::expired_ca(
        |answer: &mut GetInstallationResponse| answer.certificates = Some(CertificateStatus {
            ca_left_s: Some(-1),
            ..CertificateStatus::default()
        }),
        "ca-expiring",
        "a trusted CA has expired"
    )]
    #[case::unusable_certificates(
        |answer: &mut GetInstallationResponse| answer.certificates = Some(CertificateStatus {
            ca_left_s: Some(90 * DAY_S),
            problems: vec!["Secret a is not complete".to_owned()],
            ..CertificateStatus::default()
        }),
        "certificates-problem",
        "Secret a is not complete"
    )]
    #[case::old_agents(
        |answer: &mut GetInstallationResponse| answer.agents_by_version = [(String::new(), 2)].into(),
        "versions-differ",
        &format!("2 agents have an earlier version, the webhook {}", env!("CARGO_PKG_VERSION"))
    )]
    #[case::unproven(
        |answer: &mut GetInstallationResponse| answer.callers = "unproven".to_owned(),
        "callers-unproven",
        "replica webhook-a answers every client until an API server presents its certificate"
    )]
    #[case::not_called(
        |answer: &mut GetInstallationResponse| answer.reachability = Some(ReachabilityStatus {
            problem: "no answer".to_owned(),
            ..ReachabilityStatus::default()
        }),
        "webhook-not-called",
        "the API server does not reach the webhook; replica webhook-a reports: no answer"
    )]
    #[case::without_rights(
        |answer: &mut GetInstallationResponse| answer.missing_rights = vec!["patch nodes/status".to_owned()],
        "webhook-rights-missing",
        "the webhook may not patch nodes/status"
    )]
    fn each_condition_is_found_by_its_row_only(
        #[case] break_it: impl Fn(&mut GetInstallationResponse),
        #[case] code: &str,
        #[case] sentence: &str,
    ) {
        let mut answer = healthy();
        break_it(&mut answer);
        assert_eq!(found(&with_answers(vec![answer])), [(code, sentence.to_owned())]);
    }

    #[test]
    fn certificates_of_callers_are_recommended_where_quotas_are_checked_and_they_can_be_had() {
        let mut answer = healthy();
        answer.callers = "any".to_owned();
        let evidence = |answer: &GetInstallationResponse, is_hosted| Evidence {
            is_hosted: Ok(is_hosted),
            ..with_answers(vec![answer.clone()])
        };
        assert_eq!(found(&evidence(&answer, false)), [], "no quotas");
        answer.endpoints.push(EndpointRegistration {
            endpoint: access::EXACT_ENDPOINT.to_owned(),
            ..EndpointRegistration::default()
        });
        let told = "every client that reaches the admission port can claim quota for seconds".to_owned();
        assert_eq!(found(&evidence(&answer, false)), [("callers-any", told)]);
        assert_eq!(found(&evidence(&answer, true)), []);
    }

    #[test]
    fn replicas_with_different_cas_are_found() {
        let with = |bundle: &str| GetInstallationResponse {
            certificates: Some(CertificateStatus {
                bundle_sha256: bundle.to_owned(),
                ..CertificateStatus::default()
            }),
            ..healthy()
        };
        let evidence = with_answers(vec![with("a"), with("b"), healthy()]);
        let told = "the replicas have 2 different CA bundles".to_owned();
        assert_eq!(found(&evidence), [("certificates-problem", told)]);
        assert_eq!(found(&with_answers(vec![with("a"), with("a")])), []);
    }

    #[test]
    fn an_unsynced_replica_does_not_report_silent_agents() {
        let mut answer = healthy();
        answer.has_synced = false;
        answer.silent_nodes = 3;
        let report = CheckReport::new(INSTALLED, &with_answers(vec![answer]));
        assert_eq!(report.findings[0].code, "not-synced");
        assert_eq!(report.open[0].code, "agents-silent");
    }

    #[test]
    fn replicas_of_another_version_are_named() {
        let ours = env!("CARGO_PKG_VERSION");
        let mut answer = healthy();
        answer.version = "9.0.0".to_owned();
        answer.agents_by_version = [("9.0.0".to_owned(), 1)].into();
        let told = format!("replica webhook-a has version 9.0.0, this kubectl-headroom {ours}");
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
    fn silent_agents_are_counted_by_the_replica_with_most_reports() {
        let mut deaf = healthy();
        deaf.silent_nodes = 3;
        assert_eq!(found(&with_answers(vec![deaf, healthy()])), []);
    }

    #[test]
    fn a_deleted_configuration_is_found_without_a_replica() {
        let evidence = Evidence {
            is_configured: Ok(false),
            ..Evidence::default()
        };
        let report = CheckReport::new(INSTALLED, &evidence);
        assert_eq!(
            (report.findings[0].code, report.findings[0].sentence.as_str()),
            (
                "not-registered",
                "the API server does not call the webhook: MutatingWebhookConfiguration headroom-webhook does not exist"
            )
        );
        let mut answer = healthy();
        register(&mut answer, "there is no entry a", true);
        let evidence = Evidence {
            is_configured: Ok(false),
            ..with_answers(vec![answer])
        };
        assert_eq!(
            found(&evidence).len(),
            1,
            "the replica's finding is more specific"
        );
    }

    #[test]
    fn unreachable_replicas_are_reported_with_the_reason() {
        let evidence = Evidence {
            unreached: vec!["cannot connect to pod a".to_owned()],
            ..with_answers(vec![healthy()])
        };
        let told = ("webhook-unreachable", "cannot connect to pod a".to_owned());
        assert_eq!(found(&evidence), [told]);
    }
}
