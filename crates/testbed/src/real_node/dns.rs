//! The cluster's DNS: addresses of Services, read from the API server for each query. It answers no other names.

use std::{
    net::{Ipv4Addr, SocketAddr},
    sync::Arc,
};

use anyhow::{Context as _, Result};
use k8s_openapi::api::{core::v1::Service, discovery::v1::EndpointSlice};
use kube::{Api, Client, api::ListParams};
use simple_dns::{
    CLASS, Packet, PacketFlag, QTYPE, RCODE, ResourceRecord, TYPE,
    rdata::{A, RData},
};
use tokio::net::UdpSocket;

/// Suffix of all names.
pub(super) const DOMAIN: &str = "cluster.local";
/// Lifetime of answers, in seconds.
const TTL_S: u32 = 5;
/// Size limit of messages without extensions.
const MESSAGE_BYTES: usize = 512;

pub(super) struct Dns {
    socket: Arc<UdpSocket>,
    client: Client,
}

/// Answer to a query: addresses, or the reason why there are none.
type Answer = Result<Vec<Ipv4Addr>, RCODE>;

impl Dns {
    pub(super) fn new(socket: UdpSocket, client: Client) -> Self {
        Self {
            socket: Arc::new(socket),
            client,
        }
    }

    pub(super) async fn serve(self) {
        let mut buffer = [0; MESSAGE_BYTES];
        loop {
            match self.socket.recv_from(&mut buffer).await {
                Ok((length, from)) => {
                    let query = buffer.get(..length).unwrap_or_default().to_vec();
                    tokio::spawn(respond(
                        Arc::clone(&self.socket),
                        self.client.clone(),
                        query,
                        from,
                    ));
                }
                Err(error) => tracing::warn!(%error, "the cluster's DNS cannot receive"),
            }
        }
    }
}

async fn respond(socket: Arc<UdpSocket>, client: Client, query: Vec<u8>, from: SocketAddr) {
    let outcome = async {
        let query = Packet::parse(&query).context("parse a query")?;
        let question = query.questions.first().context("read the question")?;
        let answer = match parse(&question.qname.to_string()) {
            None => Err(RCODE::NameError),
            Some((service, namespace)) => {
                addresses(&client, &service, &namespace)
                    .await
                    .unwrap_or_else(|error| {
                        tracing::warn!(%error, service, namespace, "a Service cannot be read");
                        Err(RCODE::ServerFailure)
                    })
            }
        };
        let reply = reply(&query, answer)?;
        socket.send_to(&reply, from).await.context("send an answer")?;
        anyhow::Ok(())
    };
    if let Err(error) = outcome.await {
        tracing::warn!(%error, "the cluster's DNS cannot answer");
    }
}

/// Service and namespace of `SERVICE.NAMESPACE.svc.cluster.local`.
fn parse(name: &str) -> Option<(String, String)> {
    let name = name.to_ascii_lowercase();
    let name = name.strip_suffix('.').unwrap_or(&name);
    let name = name.strip_suffix(DOMAIN)?.strip_suffix(".svc.")?;
    let (service, namespace) = name.split_once('.')?;
    (!namespace.contains('.')).then(|| (service.to_owned(), namespace.to_owned()))
}

/// Address of the Service, or of its ready endpoints if it is headless.
async fn addresses(client: &Client, name: &str, namespace: &str) -> Result<Answer> {
    let services: Api<Service> = Api::namespaced(client.clone(), namespace);
    let Some(service) = services.get_opt(name).await.context("read a Service")? else {
        return Ok(Err(RCODE::NameError));
    };
    let address = service.spec.and_then(|spec| spec.cluster_ip).unwrap_or_default();
    if let Ok(address) = address.parse() {
        return Ok(Ok(vec![address]));
    }
    let slices: Api<EndpointSlice> = Api::namespaced(client.clone(), namespace);
    let of_service = ListParams::default().labels(&format!("kubernetes.io/service-name={name}"));
    let slices = slices
        .list(&of_service)
        .await
        .context("list the endpoints of a Service")?;
    let endpoints = slices
        .items
        .into_iter()
        .flat_map(|slice| slice.endpoints.unwrap_or_default());
    let ready = endpoints.filter(|endpoint| {
        endpoint
            .conditions
            .as_ref()
            .and_then(|it| it.ready)
            .unwrap_or(true)
    });
    let addresses: Vec<_> = ready
        .flat_map(|endpoint| endpoint.addresses)
        .filter_map(|address| address.parse().ok())
        .collect();
    // CoreDNS answers like this for a headless Service without ready endpoints.
    Ok(if addresses.is_empty() {
        Err(RCODE::NameError)
    } else {
        Ok(addresses)
    })
}

/// An answer without addresses is for types other than A, such as AAAA.
fn reply(query: &Packet<'_>, answer: Answer) -> Result<Vec<u8>> {
    let mut reply = Packet::new_reply(query.id());
    reply.set_flags(PacketFlag::AUTHORITATIVE_ANSWER | PacketFlag::RECURSION_AVAILABLE);
    if query.has_flags(PacketFlag::RECURSION_DESIRED) {
        reply.set_flags(PacketFlag::RECURSION_DESIRED);
    }
    let question = query.questions.first().context("read the question")?;
    reply.questions.push(question.clone());
    match answer {
        Err(code) => *reply.rcode_mut() = code,
        Ok(addresses) if matches!(question.qtype, QTYPE::TYPE(TYPE::A) | QTYPE::ANY) => {
            let name = question.qname.clone();
            let record =
                |address| ResourceRecord::new(name.clone(), CLASS::IN, TTL_S, RData::A(A::from(address)));
            reply.answers = addresses.into_iter().map(record).collect();
        }
        Ok(_) => {}
    }
    reply.build_bytes_vec_compressed().context("write an answer")
}

#[cfg(test)]
mod tests {
    use simple_dns::{Name, QCLASS, Question};

    use super::*;

    fn query(name: &'static str, kind: TYPE) -> Packet<'static> {
        let mut query = Packet::new_query(7);
        let name = Name::new(name).expect("name");
        query.questions.push(Question::new(
            name,
            QTYPE::TYPE(kind),
            QCLASS::CLASS(CLASS::IN),
            false,
        ));
        query
    }

    #[test]
    fn only_names_of_services_are_parsed() {
        let service = Some(("hints".to_owned(), "headroom-system".to_owned()));
        assert_eq!(parse("Hints.headroom-system.svc.cluster.local"), service);
        assert_eq!(parse("hints.headroom-system.svc.cluster.local."), service);
        assert_eq!(parse("hints.headroom-system.svc"), None);
        assert_eq!(parse("pod.hints.headroom-system.svc.cluster.local"), None);
        assert_eq!(parse("example.com"), None);
    }

    #[test]
    fn answer_contains_the_addresses_for_type_a_only() {
        let addresses = || Ok(vec![Ipv4Addr::new(198, 19, 0, 2), Ipv4Addr::new(198, 19, 0, 3)]);
        let name = "hints.headroom-system.svc.cluster.local";
        let bytes = reply(&query(name, TYPE::A), addresses()).expect("reply");
        let answer = Packet::parse(&bytes).expect("packet");
        assert_eq!(
            (answer.id(), answer.rcode(), answer.answers.len()),
            (7, RCODE::NoError, 2)
        );
        let bytes = reply(&query(name, TYPE::AAAA), addresses()).expect("reply");
        let answer = Packet::parse(&bytes).expect("packet");
        assert_eq!((answer.rcode(), answer.answers.len()), (RCODE::NoError, 0));
        let bytes = reply(&query(name, TYPE::A), Err(RCODE::NameError)).expect("reply");
        assert_eq!(Packet::parse(&bytes).expect("packet").rcode(), RCODE::NameError);
    }
}
