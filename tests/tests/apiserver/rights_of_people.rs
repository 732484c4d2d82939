//! Tests of the user roles on a real API server: each command with one role alone, each rule missing once, and the
//! other rights of the account whose tokens the roles can create.
#![expect(clippy::expect_used, reason = "tests panic: a returned error has no stack")]

use std::fs;

use e2e::people::{NODE, People};
use headroom_domain::{installation::Installation, names};
use k8s_openapi::api::{
    admissionregistration::v1::MutatingWebhookConfiguration,
    authentication::v1::{TokenRequest, TokenRequestSpec},
    authorization::v1::{SelfSubjectRulesReview, SelfSubjectRulesReviewSpec},
    core::v1::{Node, ServiceAccount},
    rbac::v1::{ClusterRole, PolicyRule, Role},
};
use kube::{
    Api, Client, Config,
    api::{DeleteParams, Patch, PatchParams, PostParams},
};
use kubectl_headroom::rights::{
    Audience, Place, READ_CHECKS_CA, READ_FLUID, READ_KOORDINATOR, RIGHTS, Right,
};
use serde_json::{Value, json};

use crate::slo_config::config_map;

/// Commands that only read, in addition to those that are given a file.
const READING: [&[&str]; 9] = [
    &["check"],
    &["top"],
    &["explain", NODE],
    &["hints"],
    &["version"],
    &["pod", "explain", "shop/web"],
    &["quota", "tree", "--usage"],
    &["quota", "explain", "lab"],
    &["config", "explain", NODE],
];

#[tokio::test(flavor = "multi_thread")]
async fn viewers_run_each_command_that_reads_and_no_other() {
    let people = People::start().await;
    people.grant("ann", names::VIEWER).await;
    let kubeconfig = people.kubeconfig("ann");
    let file = people.stand.cluster.dir().join("new.yaml");
    let data = [(
        names::COLOCATION_CONFIG.to_owned(),
        r#"{"enable":true}"#.to_owned(),
    )];
    fs::write(&file, config_map(names::SLO_CONFIG, &data.into())).expect("write");
    let file = file.display().to_string();
    let diff = ["config", "diff", &file];
    let check = ["config", "check", &file, "--online"];
    for command in READING.into_iter().chain([&diff[..], &check]) {
        let output = people.run(&kubeconfig, command).await;
        let complaint = String::from_utf8_lossy(&output.stderr);
        assert!(!complaint.contains("missing rule"), "{command:?}: {complaint}");
    }
    for command in [&["top"][..], &["explain", NODE], &["hints"]] {
        let answer = people.ask(&kubeconfig, command).await;
        assert!(
            answer.contains(NODE) || command == ["hints"],
            "{command:?}: {answer}"
        );
    }
    assert_eq!(
        people.fail(&kubeconfig, &["off"]).await,
        "error: cannot read the nodes: nodes is forbidden: User \"ann\" cannot list resource \"nodes\" in API group \"\" at the \
         cluster scope; the missing rule is {apiGroups: [\"\"], resources: [nodes], verbs: [get, list]} of ClusterRole \
         headroom-operator\n"
    );
    let client = people
        .stand
        .cluster
        .client_for("ann", None)
        .await
        .expect("a client");
    let mode = json!({"metadata": {"annotations": {names::MODE: "off"}}});
    let nodes: Api<Node> = Api::all(client);
    let refused = nodes
        .patch(NODE, &PatchParams::default(), &Patch::Merge(&mode))
        .await;
    assert!(matches!(refused, Err(kube::Error::Api(status)) if status.code == 403));
}

#[tokio::test(flavor = "multi_thread")]
async fn operators_also_change_modes_and_switch_off() {
    let people = People::start().await;
    people.grant("olga", names::OPERATOR).await;
    let kubeconfig = people.kubeconfig("olga");
    let table = people.ask(&kubeconfig, &["top", "--once"]).await;
    assert!(table.contains(NODE), "{table}");
    let report = people.run(&kubeconfig, &["check", "--json"]).await;
    let report: Value = serde_json::from_slice(&report.stdout).expect("JSON");
    assert_eq!(report["not_known"], json!([]), "{report}");
    let client = people
        .stand
        .cluster
        .client_for("olga", None)
        .await
        .expect("a client");
    let mode = json!({"metadata": {"annotations": {names::MODE: "static"}}});
    let nodes: Api<Node> = Api::all(client);
    nodes
        .patch(NODE, &PatchParams::default(), &Patch::Merge(&mode))
        .await
        .expect("change the mode");
    for command in [&["off"][..], &["off", "--now"], &["off", "--now", "--node", NODE]] {
        let answer = people.ask(&kubeconfig, command).await;
        assert!(answer.contains(&format!("{NODE}: raw")), "{command:?}: {answer}");
    }
}

/// A role like that of operators, without some verbs of one rule.
async fn grant_without(people: &People, user: &str, missing: &Right, verbs: &[&str]) {
    let installation = Installation::default();
    let cut = |rules: Option<Vec<PolicyRule>>, place: Place| {
        let mut rules = rules.expect("rules");
        for rule in rules.iter_mut().filter(|_| place == missing.place) {
            if rule.resources.as_ref().expect("resources") == &[missing.resource] {
                rule.verbs.retain(|verb| !verbs.contains(&verb.as_str()));
            }
        }
        rules.retain(|rule| !rule.verbs.is_empty());
        Some(rules)
    };
    let mut whole: ClusterRole = Audience::Operators.cluster_role(&installation);
    whole.metadata.name = Some(user.to_owned());
    whole.rules = cut(whole.rules, Place::Cluster);
    let mut role: Role = Audience::Operators.namespaced_role(&installation);
    role.metadata.name = Some(user.to_owned());
    role.rules = cut(role.rules, Place::WebhookNamespace);
    let client = &people.stand.client;
    let params = PostParams::default();
    Api::all(client.clone())
        .create(&params, &whole)
        .await
        .expect("create the ClusterRole");
    Api::namespaced(client.clone(), names::NAMESPACE)
        .create(&params, &role)
        .await
        .expect("create the Role");
    people.grant(user, user).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn missing_rule_is_reported_with_the_api_servers_text() {
    let people = People::start().await;
    // `off` writes nothing to a node without traces of ours.
    people.stand.set_ratio(NODE, 150).await;
    let asks_for_create = asks_for_create(&people).await;
    let mut users = 0;
    for right in RIGHTS {
        if [READ_KOORDINATOR.object, READ_FLUID.object].contains(&right.object) {
            // `check --pre` works without them.
            continue;
        }
        if right.object == READ_CHECKS_CA.object && right.resource == READ_CHECKS_CA.resource {
            let configurations: Api<MutatingWebhookConfiguration> = Api::all(people.stand.client.clone());
            let deleted = configurations
                .delete(names::WEBHOOK_CONFIGURATION, &DeleteParams::default())
                .await;
            deleted.expect("delete the configuration");
        }
        for verb in right.verbs {
            // `off --node` gets nodes.
            let command: &[&str] = match (right.resource, *verb) {
                ("nodes", "get") => &["off", "--now", "--node", NODE],
                _ if right.audience == Audience::Operators => &["off", "--now"],
                _ => &["top", "--once"],
            };
            users += 1;
            let user = format!("user-{users}");
            grant_without(&people, &user, right, &[verb]).await;
            if (right.resource, *verb) == ("pods/portforward", "create") && !asks_for_create {
                people.ask(&people.kubeconfig(&user), command).await;
                continue;
            }
            let complaint = people.fail(&people.kubeconfig(&user), command).await;
            // The check of `create` for a WebSocket has only these words.
            let words = match (right.resource, *verb) {
                ("pods/portforward", "create") => "pods \"webhook-0\" is forbidden;".to_owned(),
                (resource, verb) => format!("User \"{user}\" cannot {verb} resource \"{resource}\""),
            };
            for part in [right.purpose, &words, &right.to_string()] {
                assert!(complaint.contains(part), "{part} is not in {complaint}");
            }
        }
    }
    assert_eq!(users, 10, "each verb of each rule");
}

/// True if opening a port-forward takes `create`, as from 1.35 on; before, `get` is enough.
async fn asks_for_create(people: &People) -> bool {
    let version = people.stand.client.apiserver_version().await.expect("a version");
    let minor: u32 = version.minor.trim_end_matches('+').parse().expect("a number");
    minor >= 35
}

/// A token of an account of ours for the API server, asked for by a user.
async fn token_for_api(people: &People, user: &str, account: &str) -> kube::Result<TokenRequest> {
    let client = people
        .stand
        .cluster
        .client_for(user, None)
        .await
        .expect("a client");
    let accounts: Api<ServiceAccount> = Api::namespaced(client, names::NAMESPACE);
    let request = TokenRequest {
        spec: Some(TokenRequestSpec::default()),
        ..TokenRequest::default()
    };
    accounts
        .create_token_request(account, &PostParams::default(), &request)
        .await
}

#[tokio::test(flavor = "multi_thread")]
async fn user_account_can_access_only_the_debug_service() {
    let people = People::start().await;
    people.grant("olga", names::OPERATOR).await;
    let refused = token_for_api(&people, "olga", names::WEBHOOK_SERVICE_ACCOUNT).await;
    assert!(matches!(refused, Err(kube::Error::Api(status)) if status.code == 403));

    let answer = token_for_api(&people, "olga", names::VIEWER)
        .await
        .expect("a token");
    let token = answer.status.expect("a status").token;
    let url = people.stand.cluster.endpoint().parse().expect("a URL");
    let mut config = Config::new(url);
    config.accept_invalid_certs = true;
    config.auth_info.token = token.map(Into::into);
    let client = Client::try_from(config).expect("a client");
    let review = SelfSubjectRulesReview {
        spec: SelfSubjectRulesReviewSpec {
            namespace: Some(names::NAMESPACE.to_owned()),
        },
        ..SelfSubjectRulesReview::default()
    };
    let reviews: Api<SelfSubjectRulesReview> = Api::all(client);
    let review = reviews
        .create(&PostParams::default(), &review)
        .await
        .expect("a review");
    let status = review.status.expect("a status");
    // Rights of every authenticated user: reviews of its own identity and rights.
    let objects = status
        .resource_rules
        .into_iter()
        .flat_map(|rule| rule.resources.unwrap_or_default());
    let mut objects: Vec<String> = objects.collect();
    objects.sort_unstable();
    assert_eq!(
        objects,
        [
            "selfsubjectaccessreviews",
            "selfsubjectreviews",
            "selfsubjectrulesreviews"
        ]
    );
    let urls = status.non_resource_rules.into_iter();
    let urls: Vec<String> = urls
        .flat_map(|rule| rule.non_resource_urls.unwrap_or_default())
        .collect();
    assert!(urls.contains(&names::DEBUG_URL.to_owned()), "{urls:?}");
}
