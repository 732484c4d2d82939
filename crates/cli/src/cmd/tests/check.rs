//! Tests of `check`, and of the findings above the output of other commands.

use headroom_proto::v1alpha1::EndpointRegistration;
use serde_json::Value;

use super::*;

const LINE: &str = "error: the API server does not call the webhook for mutate-node-status: there is no entry a in configuration b\n";

/// Makes the webhook report that the API server does not call it.
fn unregister(webhook: &Running) {
    let registration = EndpointRegistration {
        endpoint: "mutate-node-status".to_owned(),
        fault: "there is no entry a in configuration b".to_owned(),
        missing: true,
    };
    let mut known = webhook.installation.lock().unwrap();
    known.as_mut().unwrap().endpoints = vec![registration];
}

#[tokio::test]
async fn a_problem_sets_the_exit_code_and_is_in_the_json() {
    let webhook = Running::start().await;
    let fine = webhook.ask(&["check"]).await.unwrap();
    assert_eq!(fine, "No problem found by 16 checks.\n");
    unregister(&webhook);
    let mut out = Vec::new();
    let args = webhook.args(&["check", "--json"]);
    let error = run(args, &mut Screen::plain(&mut out)).await.unwrap_err();
    assert_eq!(error.exit_code(), 1, "{error}");
    assert!(error.to_string().starts_with("1 of 16 checks "), "{error}");
    let report: Value = serde_json::from_slice(&out).unwrap();
    assert_eq!(report["findings"][0]["code"], "not-registered");
    assert_eq!(report["findings"][0]["severity"], "error");
}

#[tokio::test]
async fn an_unreachable_webhook_is_a_finding_and_a_refusing_one_is_undecided() {
    let webhook = Running::start().await;
    let error = webhook.ask(&["check", "--addr=127.0.0.1:1"]).await.unwrap_err();
    assert_eq!(error.exit_code(), 1, "{error}");
    let other = webhook.file("other", "bad");
    let token = format!("--token-file={}", other.display());
    let error = webhook.ask(&["check", &token]).await.unwrap_err();
    assert_eq!(error.exit_code(), 2, "{error}");
}

#[tokio::test]
async fn an_older_webhook_is_a_finding_and_other_rows_are_undecided() {
    let webhook = Running::start().await;
    *webhook.installation.lock().unwrap() = None;
    let mut out = Vec::new();
    let error = run(webhook.args(&["check"]), &mut Screen::plain(&mut out))
        .await
        .unwrap_err();
    assert_eq!(error.exit_code(), 1, "{error}");
    let text = String::from_utf8(out).unwrap();
    assert!(
        text.starts_with("warning versions-differ: replica 127.0.0.1:"),
        "{text}"
    );
    assert!(text.contains("\nundecided not-registered: "), "{text}");
}

#[tokio::test]
async fn findings_are_printed_above_the_output_about_nodes() {
    let webhook = Running::start().await;
    unregister(&webhook);
    for (command, then) in [
        (&["top"][..], "NODE "),
        (&["explain", "b"], "b offers "),
        (&["explain", "b", "--why"], "b offers "),
    ] {
        let text = webhook.ask(command).await.unwrap();
        let rest = text.strip_prefix(LINE).unwrap();
        assert!(rest.starts_with(then), "{command:?}: {text}");
        let json: Value =
            serde_json::from_str(&webhook.ask(&[command, &["-o", "json"]].concat()).await.unwrap()).unwrap();
        let object = json.get(0).unwrap_or(&json);
        assert_eq!(
            object["findings"][0]["code"], "not-registered",
            "{command:?}: {json}"
        );
    }
}

#[tokio::test]
async fn a_later_finding_is_printed_during_a_watch() {
    let webhook = Running::start().await;
    let out = Shared::default();
    during(
        webhook.args(&["top", "--watch"]),
        Screen::plain(out.clone()),
        async {
            out.until(|text| text.lines().count() == 2).await;
            unregister(&webhook);
            out.until(|text| text.ends_with(LINE)).await;
        },
    )
    .await;
    let out = Shared::default();
    during(
        webhook.args(&["top", "--watch"]),
        Screen::terminal(out.clone(), 24, 300),
        async {
            out.until(|text| text.contains(&format!("\x1b[?7l{LINE}NODE ")))
                .await;
        },
    )
    .await;
}
