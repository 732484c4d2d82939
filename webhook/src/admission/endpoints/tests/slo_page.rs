//! Test that docs/slo-configuration.md contains the answers of `/validate-configmap`.

#[path = "../../../../../tests/src/slo_page.rs"]
#[expect(
    unreachable_pub,
    reason = "a file of the end-to-end tests, which depend on this crate"
)]
mod page;

use tokio::sync::watch;

use self::page::{Data, Mistake, SloPage};
use super::{review::ReviewBuilder, *};
use crate::store::{known::KnownSources, sources};

/// Answer to the writer of a new version: lines that begin with `Warning: ` or `Error: `.
fn answer(data: &Data) -> Vec<String> {
    let known = KnownSources::default();
    known.record(&sources::NODES, watch::channel(true).1);
    let router = Router::new(Options {
        stores: Stores {
            known,
            ..Stores::default()
        },
        ..options(FixtureCluster::default())
    });
    let object = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": names::SLO_CONFIG, "namespace": names::SLO_CONFIG_NAMESPACE}, "data": data,
    });
    let endpoint = router.endpoint("/validate-configmap").unwrap();
    let body = ReviewBuilder::create("configmaps", &object).build();
    let deadline = Deadline::after(Instant::now(), Duration::from_secs(60));
    let answer = router.answer(endpoint, body.as_bytes(), deadline);
    let review: Value = serde_json::from_slice(&answer.body).unwrap();
    let response = &review["response"];
    let warnings = response["warnings"].as_array().into_iter().flatten();
    let warnings = warnings.map(|warning| format!("Warning: {}", warning.as_str().unwrap()));
    let error = response["status"]["message"].as_str();
    warnings
        .chain(error.map(|message| format!("Error: {message}")))
        .collect()
}

#[test]
fn the_page_says_what_the_webhook_answers() {
    let page = SloPage::load();
    assert_eq!(answer(&page.example), [""; 0], "the example");
    assert_eq!(page.mistakes.len(), 10);
    let mut wrong = Vec::new();
    for Mistake {
        title,
        data,
        answer: said,
    } in &page.mistakes
    {
        let found = answer(data);
        if found != *said {
            wrong.push(format!("### {title}\n{}\n", found.join("\n")));
        }
        assert!(!found.is_empty(), "{title}");
    }
    assert!(wrong.is_empty(), "not as the page says:\n{}", wrong.join("\n"));
    let answers: BTreeSet<_> = page.mistakes.iter().map(|mistake| &mistake.answer).collect();
    assert_eq!(answers.len(), 10, "each mistake has an answer of its own");
}
