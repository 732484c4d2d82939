//! Rows for the access of the API server to the webhook, of the webhook to the API server, and of others to the webhook.

use std::collections::BTreeSet;

use super::{CheckRow, CheckSource, Messages, Severity, evidence::Evidence};

pub(super) static NOT_CALLED: CheckRow = CheckRow {
    code: "webhook-not-called",
    severity: Severity::Error,
    source: CheckSource::Replicas,
    about: "The last probes of a replica had no answer: it sends a dry run of `nodes/status` every minute, and the API server got no replica's answer for it. Writes pass without the webhook, and writes of entries with failure policy Fail are refused.",
    fix: "Let the API server reach the webhook's pods: check network policies and firewalls on port 9443, and on EKS with another CNI run the replicas on the host network. If registration or certificates have a finding, fix that first.",
    find: not_called,
};

pub(super) static RIGHTS_MISSING: CheckRow = CheckRow {
    code: "webhook-rights-missing",
    severity: Severity::Warning,
    source: CheckSource::Replicas,
    about: "The API server denies rights to the webhook's account that the generated roles contain. Every replica asks every ten minutes.",
    fix: "Apply the roles and bindings of the webhook's version again.",
    find: lacking_rights,
};

pub(super) static CALLERS_ANY: CheckRow = CheckRow {
    code: "callers-any",
    severity: Severity::Notice,
    source: CheckSource::Both,
    about: "Replicas that check quotas answer every client that reaches the admission port. Quota limits are exact only if API servers prove themselves by client certificates. Control planes of EKS, GKE and AKS cannot; the row is left out on EKS and GKE.",
    fix: "Set up the API servers and --callers=client-certificate as docs/callers.md describes, or leave it if only the control plane reaches the admission port.",
    find: any_callers,
};

pub(super) static CALLERS_UNPROVEN: CheckRow = CheckRow {
    code: "callers-unproven",
    severity: Severity::Warning,
    source: CheckSource::Replicas,
    about: "--callers=client-certificate is set, and no API server has presented its certificate to a replica yet. The replica still answers every client that reaches the admission port.",
    fix: "Set up the API servers as docs/callers.md describes, or set --callers=any.",
    find: callers,
};

fn callers(evidence: &Evidence) -> Messages {
    let answers = evidence.answers()?.iter();
    let unproven = answers.filter(|answer| answer.callers == "unproven");
    let sentences = unproven.map(|answer| {
        format!(
            "replica {} answers every client until an API server presents its certificate",
            answer.replica
        )
    });
    Ok(sentences.collect())
}

fn not_called(evidence: &Evidence) -> Messages {
    let answers = evidence.answers()?.iter();
    let problems = answers.filter_map(|answer| {
        let problem = answer.reachability.as_ref()?.problem.as_str();
        (!problem.is_empty()).then(|| {
            format!(
                "the API server does not reach the webhook; replica {} reports: {problem}",
                answer.replica
            )
        })
    });
    Ok(problems.collect())
}

fn lacking_rights(evidence: &Evidence) -> Messages {
    let answers = evidence.answers()?.iter();
    let missing: BTreeSet<&str> = answers
        .flat_map(|answer| answer.missing_rights.iter().map(String::as_str))
        .collect();
    if missing.is_empty() {
        return Ok(Vec::new());
    }
    let missing: Vec<_> = missing.into_iter().collect();
    Ok(vec![format!("the webhook may not {}", missing.join(", "))])
}

/// Endpoint whose limits need verified callers.
pub(super) const EXACT_ENDPOINT: &str = "validate-pod";

fn any_callers(evidence: &Evidence) -> Messages {
    let mut answers = evidence.answers()?.iter();
    let is_any = answers.any(|answer| {
        let mut endpoints = answer.endpoints.iter();
        answer.callers == "any" && endpoints.any(|endpoint| endpoint.endpoint == EXACT_ENDPOINT)
    });
    if !is_any || evidence.is_hosted != Ok(false) {
        return Ok(Vec::new());
    }
    Ok(vec![
        "every client that reaches the admission port can claim quota for seconds".to_owned(),
    ])
}
