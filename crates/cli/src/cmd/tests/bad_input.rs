//! Tests of errors about a wrong name, token or version: they name the object and the fix.

use headroom_proto::WireError;

use super::*;

#[tokio::test]
async fn an_unknown_node_is_an_error() {
    let webhook = Running::start().await;
    for command in [
        &["explain", "c"][..],
        &["top", "c"],
        &["top", "c", "--watch"],
        &["hints", "c"],
    ] {
        let error = webhook.ask(command).await.unwrap_err();
        let text = error.to_string();
        assert_eq!(error.exit_code(), 1, "{text}");
        assert!(
            text.contains("\"c\"") && text.ends_with("; see `kubectl get nodes`"),
            "{text}"
        );
    }
}

#[tokio::test]
async fn an_unknown_node_gets_the_nearest_name() {
    let webhook = Running::start().await;
    webhook.nodes.send_modify(|known| {
        known.nodes = ["control-plane", "worker-1"].map(status).to_vec();
    });
    for command in [
        &["explain", "wroker-1"][..],
        &["hints", "wroker-1"],
        &["top", "wroker-1"],
    ] {
        let error = webhook.ask(command).await.unwrap_err();
        let text = error.to_string();
        assert!(
            text.contains("\"wroker-1\"") && text.ends_with("; did you mean worker-1?"),
            "{command:?}: {text}"
        );
    }
}

#[tokio::test]
async fn a_rejected_token_is_an_error_without_a_retry() {
    let webhook = Running::start().await;
    let other = webhook.file("other", "bad");
    for command in [&["top"][..], &["top", "--watch"]] {
        let token = format!("--token-file={}", other.display());
        let error = webhook
            .ask(&[command, &[token.as_str()]].concat())
            .await
            .unwrap_err();
        assert_eq!(error.exit_code(), 1, "{error}");
        assert!(matches!(error, Error::BadCredential { .. }), "{error:?}");
        let text = error.to_string();
        assert!(
            text.contains("the token is not valid") && text.contains("--token-file"),
            "{text}"
        );
    }
}

#[test]
fn an_older_webhook_is_distinguished_from_a_failing_one() {
    let earlier = Error::from(Status::unimplemented(""));
    assert_eq!(earlier.exit_code(), 1);
    assert!(matches!(earlier, Error::OtherVersion), "{earlier:?}");
    assert!(!earlier.is_passing(), "a retry does not help");
    let broken = Error::from(Status::internal("x"));
    assert!(broken.to_string().ends_with(" Internal: x"), "{broken}");
}

#[tokio::test]
async fn an_invalid_answer_names_the_node_and_the_program_to_use() {
    let webhook = Running::start().await;
    webhook.nodes.send_modify(|known| {
        known.nodes[0].policy.as_mut().unwrap().mode_from = "rumour".to_owned();
    });
    let error = webhook.ask(&["top"]).await.unwrap_err();
    assert!(
        matches!(
            &error,
            Error::Answer {
                source: WireError { .. },
                ..
            }
        ),
        "{error:?}"
    );
    let text = error.to_string();
    assert!(
        text.contains("node \"a\"") && text.contains("; use the kubectl-headroom of "),
        "{text}"
    );
}

#[tokio::test]
async fn top_ends_when_its_reader_has_closed() {
    let webhook = Running::start().await;
    let out = Shared::default();
    let (closed, seen) = (out.clone(), out.clone());
    let mut screen = Screen::plain(out).closing(move || closed.text().lines().count() >= 2);
    let ended = timeout(DEADLINE, run(webhook.args(&["top", "--watch"]), &mut screen)).await;
    let error = ended.expect("it should end").unwrap_err();
    assert!(error.is_io(std::io::ErrorKind::BrokenPipe), "{error}");
    assert_eq!(seen.text().lines().count(), 2);
}
