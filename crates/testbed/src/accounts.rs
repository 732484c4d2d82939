//! Creates the namespaces, service accounts, roles and tokens of Headroom's programs on the API server.

use anyhow::{Context as _, Result};
use headroom_domain::{installation::Installation, names};
use headroom_webhook::{
    admission::{endpoint::Family, endpoints},
    install::manifest::NamespaceRights,
};
use k8s_openapi::{
    api::{
        authentication::v1::{BoundObjectReference, TokenRequest, TokenRequestSpec},
        core::v1::{Namespace, Node, ServiceAccount},
        rbac::v1::{ClusterRole, ClusterRoleBinding, PolicyRule, Role, RoleBinding, RoleRef, Subject},
    },
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use kube::{
    Api, Client, ResourceExt as _,
    api::{Patch, PatchParams, PostParams},
};

/// Lifetime of tokens, in seconds.
pub const TOKEN_SECONDS: i64 = 6 * 3600;

/// Creates the namespaces, the service accounts and the webhook's roles for nodes, if they do not exist.
///
/// # Errors
/// If the API server refuses one.
pub async fn create(client: &Client) -> Result<()> {
    create_installation(client, &Installation::default()).await
}

/// Like [`create`], for another installation.
///
/// # Errors
/// If the API server refuses one.
pub async fn create_installation(client: &Client, installation: &Installation) -> Result<()> {
    for (namespace, account) in [
        (&installation.namespace, installation.service_account()),
        (
            &installation.agent_namespace,
            installation.agent_service_account(),
        ),
    ] {
        create_namespace(client, namespace.as_str()).await?;
        let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), namespace.as_str());
        let object = ServiceAccount {
            metadata: named(&account),
            ..ServiceAccount::default()
        };
        apply(&accounts, &account, &object).await?;
    }
    grant(client, installation, &[Family::Nodes]).await
}

/// Grants the webhook the rights to serve these families, and creates namespaces that are missing.
///
/// # Errors
/// If the API server refuses a role.
pub async fn grant(client: &Client, installation: &Installation, families: &[Family]) -> Result<()> {
    for rights in headroom_webhook::rights(installation, &endpoints::served(families)) {
        let name = rights.role.name_any();
        apply(&Api::all(client.clone()), &name, &rights.role).await?;
        apply(&Api::all(client.clone()), &name, &rights.binding).await?;
        for NamespaceRights { role, binding } in &rights.namespaces {
            let namespace = role.namespace().unwrap_or_default();
            create_namespace(client, &namespace).await?;
            let roles: Api<Role> = Api::namespaced(client.clone(), &namespace);
            apply(&roles, &name, role).await?;
            let bindings: Api<RoleBinding> = Api::namespaced(client.clone(), &namespace);
            apply(&bindings, &name, binding).await?;
        }
    }
    Ok(())
}

/// Creates a namespace if it does not exist.
///
/// # Errors
/// If the API server refuses it.
pub async fn create_namespace(client: &Client, name: &str) -> Result<()> {
    let namespaces: Api<Namespace> = Api::all(client.clone());
    apply(
        &namespaces,
        name,
        &Namespace {
            metadata: named(name),
            ..Namespace::default()
        },
    )
    .await
}

/// User name of the webhook at the API server.
pub fn webhook() -> String {
    Installation::default().webhook_user()
}

fn named(name: &str) -> ObjectMeta {
    ObjectMeta {
        name: Some(name.to_owned()),
        ..ObjectMeta::default()
    }
}

/// Creates or updates an object with server-side apply.
///
/// # Errors
/// If the API server refuses the object.
pub async fn apply<K>(api: &Api<K>, name: &str, object: &K) -> Result<()>
where
    K: Clone + std::fmt::Debug + serde::de::DeserializeOwned + serde::Serialize + Sync,
{
    let params = PatchParams::apply("headroom-xtask").force();
    api.patch(name, &params, &Patch::Apply(object))
        .await
        .with_context(|| format!("apply {name}"))?;
    Ok(())
}

/// A token of the agent's account for the webhook, bound to a node as the kubelet binds tokens of its pods.
///
/// # Errors
/// If the API server refuses it.
pub async fn agent_token(client: &Client, node: &Node) -> Result<String> {
    let bound = BoundObjectReference {
        api_version: Some("v1".to_owned()),
        kind: Some("Node".to_owned()),
        name: Some(node.name_any()),
        uid: node.uid(),
    };
    let spec = TokenRequestSpec {
        audiences: Some(vec![names::TOKEN_AUDIENCE.to_owned()]),
        bound_object_ref: Some(bound),
        ..TokenRequestSpec::default()
    };
    token(client, names::AGENT_NAMESPACE, names::AGENT_SERVICE_ACCOUNT, spec).await
}

async fn token(client: &Client, namespace: &str, account: &str, spec: TokenRequestSpec) -> Result<String> {
    let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), namespace);
    let spec = TokenRequestSpec {
        expiration_seconds: Some(TOKEN_SECONDS),
        ..spec
    };
    let request = TokenRequest {
        spec: Some(spec),
        ..TokenRequest::default()
    };
    let answer = accounts
        .create_token_request(account, &PostParams::default(), &request)
        .await
        .with_context(|| format!("request a token of {namespace}/{account}"))?;
    answer
        .status
        .and_then(|status| status.token)
        .context("the API server returned no token")
}

/// A token for users, of an account with access only to the debug service.
///
/// # Errors
/// If the API server refuses it or its rights.
pub async fn debug_token(client: &Client) -> Result<String> {
    const ACCOUNT: &str = "headroom-debug";
    let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), names::NAMESPACE);
    let object = ServiceAccount {
        metadata: named(ACCOUNT),
        ..ServiceAccount::default()
    };
    apply(&accounts, ACCOUNT, &object).await?;
    let rule = PolicyRule {
        non_resource_urls: Some(vec![names::DEBUG_URL.to_owned()]),
        verbs: vec!["get".to_owned()],
        ..PolicyRule::default()
    };
    let role = ClusterRole {
        metadata: named(ACCOUNT),
        rules: Some(vec![rule]),
        ..ClusterRole::default()
    };
    let roles: Api<ClusterRole> = Api::all(client.clone());
    apply(&roles, ACCOUNT, &role).await?;
    bind(client, ACCOUNT, ACCOUNT).await?;
    let spec = TokenRequestSpec {
        audiences: Some(vec![names::TOKEN_AUDIENCE.to_owned()]),
        ..TokenRequestSpec::default()
    };
    token(client, names::NAMESPACE, ACCOUNT, spec).await
}

/// Binds a cluster role to an account in Headroom's namespace.
async fn bind(client: &Client, role: &str, account: &str) -> Result<()> {
    let binding = ClusterRoleBinding {
        metadata: named(role),
        role_ref: RoleRef {
            api_group: Some("rbac.authorization.k8s.io".to_owned()),
            kind: "ClusterRole".to_owned(),
            name: role.to_owned(),
        },
        subjects: Some(vec![Subject {
            kind: "ServiceAccount".to_owned(),
            name: account.to_owned(),
            namespace: Some(names::NAMESPACE.to_owned()),
            ..Subject::default()
        }]),
    };
    let bindings: Api<ClusterRoleBinding> = Api::all(client.clone());
    apply(&bindings, role, &binding).await
}
