//! Authenticates clients of the hint port: agents by token or client certificate, with their node, and users by
//! token.

mod cache;
mod certificate;
mod claims;
mod queue;

use std::{
    collections::BTreeSet,
    net::Ipv6Addr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, SystemTime},
};

use headroom_domain::{installation::Installation, names};
use headroom_kit::serve::Peer;
use rustls::pki_types::CertificateDer;
use tonic::metadata::MetadataMap;

use self::{
    cache::{Cache, TokenKey},
    certificate::certified,
    claims::Claims,
    queue::ReviewQueue,
};
use super::{
    StreamError,
    metrics::TOKEN_REVIEWS,
    token_review::{Reviewer, TokenUser},
};

/// Time for which a valid token counts without another review.
const LIFETIME: Duration = Duration::from_secs(60);
/// Time for which an invalid token is refused without another review: shorter than it takes to grant it rights.
const REFUSED_FOR: Duration = Duration::from_secs(5);
/// Reviews of agents' tokens in flight at once: when a whole fleet reconnects, the API server is asked no faster than
/// this allows.
const AGENT_REVIEWS: usize = 32;
/// Concurrent reviews of tokens whose issuer no agent's token has had.
const UNKNOWN_ISSUER_REVIEWS: usize = 2;
/// Concurrent reviews of tokens for the debug service.
const PEOPLE_REVIEWS: usize = 4;
/// Good tokens kept: a fleet of 20,000 with its old and new tokens.
const MOST_KNOWN: usize = 40_000;
/// Maximum number of invalid tokens in the cache.
const MOST_REFUSED: usize = 10_000;
/// Issuers kept: an API server has one, and two while it changes to another.
const MOST_ISSUERS: usize = 8;
/// Length limit of a token, in bytes; Kubernetes' own are about 1 KiB.
pub(super) const LONGEST_TOKEN: usize = 4 << 10;
/// Prefix of the users that service accounts are.
const ACCOUNTS: &str = "system:serviceaccount:";
/// Key in a TokenReview's `extra` with the UID of the pod that the token is bound to.
const POD_UID: &str = "authentication.kubernetes.io/pod-uid";

#[derive(Clone, PartialEq, Eq)]
pub enum Credential {
    Token(String),
    /// A client certificate that the TLS handshake verified, and its intermediates.
    Certificate(Arc<[CertificateDer<'static>]>),
}

/// Client: its credential and its connection.
#[derive(Clone, PartialEq, Eq)]
pub struct Caller {
    pub credential: Credential,
    /// The other end of its connection; `[::]:0` if that is not known.
    pub peer: Peer,
}

/// Interval between two reviews of the credential of an open stream or watch: a revoked token is good for no longer.
pub(super) const REVIEW_EVERY: Duration = Duration::from_secs(300);

/// An agent and the node it speaks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentIdentity {
    pub node: String,
    /// UID of the agent's pod, where its token names one.
    pub pod_uid: Option<String>,
    /// Expiry of its credential, if known.
    pub expires: Option<SystemTime>,
}

/// Checks credentials; remembers good and bad tokens for a short time.
///
/// The API server reviews only tokens whose claims can be valid. Agents and users wait in separate queues with a
/// share for each client.
pub struct Authenticator {
    reviewer: Arc<dyn Reviewer>,
    /// The user that agents are, without its prefix for service accounts.
    agent_account: String,
    /// The account that users have tokens of, in the same form.
    viewer_account: String,
    agents: ReviewQueue,
    unknown_issuers: ReviewQueue,
    people: ReviewQueue,
    known: Cache<AgentIdentity>,
    // Two: a token that is no agent's may still be a person's.
    refused_agents: Cache<TokenRefusal>,
    refused_people: Cache<TokenRefusal>,
    /// Issuers of tokens that the API server has verified, so no other client can add one.
    issuers: Mutex<BTreeSet<String>>,
}

/// Why a token is refused that the API server was asked about.
#[derive(Debug, Clone, PartialEq, Eq)]
enum TokenRefusal {
    Bad,
    NotAnAgent { user: String },
    NotBound { user: String },
}

impl From<TokenRefusal> for StreamError {
    fn from(refusal: TokenRefusal) -> Self {
        match refusal {
            TokenRefusal::Bad => Self::BadToken,
            TokenRefusal::NotAnAgent { user } => Self::NotAnAgent { user },
            TokenRefusal::NotBound { user } => Self::NotBound { user },
        }
    }
}

impl Caller {
    /// The credential and the address of a request. A token counts before a certificate.
    ///
    /// # Errors
    /// Neither came.
    pub fn from_request(metadata: &MetadataMap, peer: Option<&Peer>) -> Result<Self, StreamError> {
        let credential = Credential::from_request(metadata, peer)?;
        let unknown = || Peer::new((Ipv6Addr::UNSPECIFIED, 0).into(), None);
        Ok(Self {
            credential,
            peer: peer.cloned().unwrap_or_else(unknown),
        })
    }
}

impl Credential {
    fn from_request(metadata: &MetadataMap, peer: Option<&Peer>) -> Result<Self, StreamError> {
        let header = metadata
            .get("authorization")
            .and_then(|value| value.to_str().ok());
        let token = header
            .and_then(|header| header.split_once(' '))
            .filter(|(scheme, token)| {
                scheme.eq_ignore_ascii_case("bearer") && (1..=LONGEST_TOKEN).contains(&token.len())
            });
        match (token, peer.and_then(|peer| peer.certificates.as_ref())) {
            (Some((_, token)), _) => Ok(Self::Token(token.to_owned())),
            (None, Some(chain)) => Ok(Self::Certificate(Arc::clone(chain))),
            (None, None) => Err(StreamError::NoCredential),
        }
    }
}

impl Authenticator {
    /// Checks with this reviewer, for the agents of an installation.
    pub fn new(reviewer: Arc<dyn Reviewer>, installation: &Installation) -> Self {
        let namespace = &installation.agent_namespace;
        Self {
            reviewer,
            agent_account: format!("{namespace}:{}", installation.agent_service_account()),
            viewer_account: format!("{}:{}", installation.namespace, installation.named(names::VIEWER)),
            agents: ReviewQueue::new(AGENT_REVIEWS),
            unknown_issuers: ReviewQueue::new(UNKNOWN_ISSUER_REVIEWS),
            people: ReviewQueue::new(PEOPLE_REVIEWS),
            known: Cache::new(MOST_KNOWN),
            refused_agents: Cache::new(MOST_REFUSED),
            refused_people: Cache::new(MOST_REFUSED),
            issuers: Mutex::default(),
        }
    }

    /// The agent that shows a credential; a token that was good less than a minute ago is not asked about again.
    ///
    /// # Errors
    /// The credential is not an agent's, or cannot be checked.
    pub async fn agent(&self, caller: &Caller) -> Result<AgentIdentity, StreamError> {
        match &caller.credential {
            Credential::Certificate(chain) => certified(chain, SystemTime::now()),
            Credential::Token(token) => match self.known(&TokenKey::hash(token)) {
                Some(agent) => Ok(agent),
                None => self.reviewed(token, &caller.peer).await,
            },
        }
    }

    /// Like [`Self::agent`], without the cache.
    ///
    /// # Errors
    /// Errors of [`Self::agent`].
    pub async fn agent_anew(&self, caller: &Caller) -> Result<AgentIdentity, StreamError> {
        let token = match &caller.credential {
            Credential::Certificate(chain) => return certified(chain, SystemTime::now()),
            Credential::Token(token) => token,
        };
        // The old result has expired, whatever the new one is.
        self.known.remove(&TokenKey::hash(token));
        self.reviewed(token, &caller.peer).await
    }

    /// Authorizes users of the debug service, by a token for the webhook's audience: with a token for the API server,
    /// the operator of the webhook could act as the user.
    ///
    /// # Errors
    /// The token is missing, invalid, of a user without the right, or cannot be checked.
    pub async fn may_debug(&self, caller: &Caller) -> Result<(), StreamError> {
        let Credential::Token(token) = &caller.credential else {
            return Err(StreamError::NoCredential);
        };
        let claims = Claims::for_webhook(token, SystemTime::now()).map_err(unasked)?;
        let key = TokenKey::hash(token);
        refuse_known(&self.refused_people, &key)?;
        let permit = self
            .people
            .acquire(caller.peer.address)
            .await
            .ok_or_else(too_many)?;
        refuse_known(&self.refused_people, &key)?;
        let _busy = caller.peer.keep_open();
        let Some(user) = self.user(token).await? else {
            permit.was_bad();
            self.refused_people.insert(key, TokenRefusal::Bad, REFUSED_FOR);
            return Err(StreamError::BadToken);
        };
        if user.name.strip_prefix(ACCOUNTS) == Some(&self.viewer_account) {
            claims.check_validity()?;
        }
        let is_allowed = self
            .reviewer
            .may_get(&user, names::DEBUG_URL)
            .await
            .map_err(StreamError::Unchecked)?;
        if is_allowed {
            Ok(())
        } else {
            Err(StreamError::Forbidden {
                user: user.name,
                url: names::DEBUG_URL,
            })
        }
    }

    /// Agent of a token, by a review, or by a recent result.
    async fn reviewed(&self, token: &str, peer: &Peer) -> Result<AgentIdentity, StreamError> {
        let claims = Claims::for_webhook(token, SystemTime::now()).map_err(unasked)?;
        let key = TokenKey::hash(token);
        refuse_known(&self.refused_agents, &key)?;
        let queue = if self.knows_issuer(claims.issuer()) {
            &self.agents
        } else {
            &self.unknown_issuers
        };
        let permit = queue.acquire(peer.address).await.ok_or_else(too_many)?;
        // The client cannot hasten its review; few run at once.
        let _busy = peer.keep_open();
        // The token may have been reviewed meanwhile.
        refuse_known(&self.refused_agents, &key)?;
        if let Some(agent) = self.known(&key) {
            return Ok(agent);
        }
        let found = match self.user(token).await? {
            None => Err(TokenRefusal::Bad),
            Some(user) => agent(user, &self.agent_account, claims.end()),
        };
        match found {
            Ok(agent) => {
                self.learn_issuer(claims.issuer());
                let end = agent.expires.unwrap_or(SystemTime::UNIX_EPOCH);
                let left = end
                    .duration_since(SystemTime::now())
                    .map_err(|_past| StreamError::Expired)?;
                self.known.insert(key, agent.clone(), left.min(LIFETIME));
                Ok(agent)
            }
            Err(refusal) => {
                permit.was_bad();
                self.refused_agents.insert(key, refusal.clone(), REFUSED_FOR);
                Err(refusal.into())
            }
        }
    }

    fn known(&self, key: &TokenKey) -> Option<AgentIdentity> {
        let agent = self.known.get(key)?;
        TOKEN_REVIEWS.with(["cached"]).increment(1);
        Some(agent)
    }

    async fn user(&self, token: &str) -> Result<Option<TokenUser>, StreamError> {
        let reviewed = self.reviewer.user(token, names::TOKEN_AUDIENCE).await;
        let result = match &reviewed {
            Ok(Some(_)) => "good",
            Ok(None) => "bad",
            Err(_) => "failed",
        };
        TOKEN_REVIEWS.with([result]).increment(1);
        reviewed.map_err(StreamError::Unchecked)
    }

    /// True if an agent's token had this issuer; before the first one, every issuer counts. A cluster can change its
    /// issuer, so an unknown one is no reason to refuse a token.
    fn knows_issuer(&self, issuer: &str) -> bool {
        let issuers = self.issuers();
        issuers.is_empty() || issuers.contains(issuer)
    }

    fn learn_issuer(&self, issuer: &str) {
        let mut issuers = self.issuers();
        if issuers.len() < MOST_ISSUERS && !issuers.contains(issuer) {
            issuers.insert(issuer.to_owned());
        }
    }

    fn issuers(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.issuers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Counts a token that is refused by its own claims.
fn unasked(error: StreamError) -> StreamError {
    TOKEN_REVIEWS.with(["unasked"]).increment(1);
    error
}

/// Refuses a token that was bad moments ago.
fn refuse_known(refused: &Cache<TokenRefusal>, key: &TokenKey) -> Result<(), StreamError> {
    let Some(refusal) = refused.get(key) else {
        return Ok(());
    };
    TOKEN_REVIEWS.with(["cached"]).increment(1);
    Err(refusal.into())
}

fn too_many() -> StreamError {
    TOKEN_REVIEWS.with(["too_many"]).increment(1);
    StreamError::TooMany
}

/// The agent that a user is; agents have that account.
fn agent(
    user: TokenUser,
    agent_account: &str,
    expires: Option<SystemTime>,
) -> Result<AgentIdentity, TokenRefusal> {
    let TokenUser {
        name,
        uid: _,
        groups: _,
        mut extra,
    } = user;
    if name.strip_prefix(ACCOUNTS) != Some(agent_account) {
        return Err(TokenRefusal::NotAnAgent { user: name });
    }
    let mut only = |key| {
        extra
            .remove(key)
            .and_then(|values| <[String; 1]>::try_from(values).ok())
    };
    let Some([node]) = only(names::TOKEN_NODE_NAME) else {
        return Err(TokenRefusal::NotBound { user: name });
    };
    let pod_uid = only(POD_UID).map(|[uid]| uid);
    Ok(AgentIdentity {
        node,
        pod_uid,
        expires,
    })
}

#[cfg(test)]
pub(crate) mod tests;
