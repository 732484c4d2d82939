//! Tests of what is said about a name, a token or a version that is wrong: what was tried, and what to do.

use headroom_proto::WireError;

use super::*;

#[tokio::test]
async fn a_node_that_nobody_knows_is_an_error() {
    let webhook = Running::start().await;
    for command in [
        &["explain", "c"][..],
        &["top", "c"],
        &["top", "c", "--watch"],
        &["hints", "c"],
    ] {
        let error = webhook.ask(command).await.unwrap_err();
        assert_eq!(
            (error.to_string().as_str(), error.exit_code()),
            (
                r#"node "c" is not known to the webhook; see `kubectl get nodes`"#,
                1
            )
        );
    }
}

#[tokio::test]
async fn the_node_that_was_probably_meant_is_told() {
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
        assert_eq!(
            error.to_string(),
            r#"node "wroker-1" is not known to the webhook; did you mean worker-1?"#,
            "{command:?}"
        );
    }
}

#[tokio::test]
async fn a_token_that_is_refused_is_an_error_at_once() {
    let webhook = Running::start().await;
    let other = webhook.file("other", "bad");
    for command in [&["top"][..], &["top", "--watch"]] {
        let token = format!("--token-file={}", other.display());
        let error = webhook
            .ask(&[command, &[token.as_str()]].concat())
            .await
            .unwrap_err();
        assert_eq!(
            (error.to_string().as_str(), error.exit_code()),
            (
                "the webhook does not accept the token: the token is not valid; it may have expired: see --token-file, or \
                 leave it out for one that the API server makes",
                1
            )
        );
    }
}

#[test]
fn a_webhook_of_another_version_is_told_from_one_that_fails() {
    let earlier = Error::from(Status::unimplemented(""));
    assert_eq!(
        (earlier.to_string().as_str(), earlier.exit_code()),
        (
            "the webhook does not know what it is asked: it is of another version; use the kubectl-headroom of its version",
            1
        )
    );
    assert!(!earlier.is_passing(), "asking again does not help");
    let broken = Error::from(Status::internal("x"));
    assert_eq!(broken.to_string(), "the webhook answered Internal: x");
}

#[tokio::test]
async fn an_answer_that_cannot_be_read_says_which_program_reads_it() {
    let webhook = Running::start().await;
    webhook.nodes.send_modify(|known| {
        known.nodes[0].policy.as_mut().unwrap().mode_from = "nobody".to_owned();
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
    assert_eq!(
        error.to_string(),
        r#"cannot read the webhook's answer about node "a"; use the kubectl-headroom of its version"#
    );
}

#[tokio::test]
async fn top_ends_when_nobody_reads_it_any_more() {
    let webhook = Running::start().await;
    let out = Shared::default();
    let (closed, seen) = (out.clone(), out.clone());
    let mut screen = Screen::plain(out).closing(move || closed.text().lines().count() >= 2);
    let ended = timeout(DEADLINE, run(webhook.args(&["top", "--watch"]), &mut screen)).await;
    let error = ended.expect("it should end").unwrap_err();
    assert!(error.is_io(std::io::ErrorKind::BrokenPipe), "{error}");
    assert_eq!(seen.text().lines().count(), 2);
}
