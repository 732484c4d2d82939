//! Messages of etcd's API and of the API server's storage, with the fields that the parent module needs.

use std::collections::HashMap;

use prost::Message;

/// Prefix of each value that the API server stores.
pub(super) const MAGIC: &[u8] = b"k8s\0";
pub(super) const RANGE: &str = "/etcdserverpb.KV/Range";
pub(super) const COMPACT: &str = "/etcdserverpb.KV/Compact";
pub(super) const WATCH: &str = "/etcdserverpb.Watch/Watch";
/// Value of [`Event::kind`] for a deleted key.
pub(super) const DELETE: i32 = 1;

#[derive(Clone, PartialEq, Message)]
pub(super) struct RangeRequest {
    #[prost(bytes = "vec", tag = "1")]
    pub(super) key: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    pub(super) range_end: Vec<u8>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct RangeResponse {
    #[prost(message, optional, tag = "1")]
    pub(super) header: Option<Header>,
    #[prost(message, repeated, tag = "2")]
    pub(super) kvs: Vec<KeyValue>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct CompactionRequest {
    #[prost(int64, tag = "1")]
    pub(super) revision: i64,
    /// True to answer after the compaction instead of before it.
    #[prost(bool, tag = "2")]
    pub(super) physical: bool,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct CompactionResponse {
    #[prost(message, optional, tag = "1")]
    pub(super) header: Option<Header>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Header {
    #[prost(int64, tag = "3")]
    pub(super) revision: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct KeyValue {
    #[prost(bytes = "vec", tag = "1")]
    pub(super) key: Vec<u8>,
    #[prost(int64, tag = "2")]
    pub(super) create_revision: i64,
    #[prost(int64, tag = "3")]
    pub(super) mod_revision: i64,
    #[prost(int64, tag = "4")]
    pub(super) version: i64,
    #[prost(bytes = "vec", tag = "5")]
    pub(super) value: Vec<u8>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct WatchRequest {
    #[prost(message, optional, tag = "1")]
    pub(super) create: Option<WatchCreate>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct WatchCreate {
    #[prost(bytes = "vec", tag = "1")]
    pub(super) key: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    pub(super) range_end: Vec<u8>,
    #[prost(int64, tag = "3")]
    pub(super) start_revision: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct WatchResponse {
    #[prost(bool, tag = "4")]
    pub(super) canceled: bool,
    #[prost(string, tag = "6")]
    pub(super) cancel_reason: String,
    #[prost(message, repeated, tag = "11")]
    pub(super) events: Vec<Event>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Event {
    #[prost(int32, tag = "1")]
    pub(super) kind: i32,
    #[prost(message, optional, tag = "2")]
    pub(super) kv: Option<KeyValue>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Envelope {
    #[prost(bytes = "vec", tag = "2")]
    pub(super) raw: Vec<u8>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct StoredNode {
    #[prost(message, optional, tag = "1")]
    pub(super) metadata: Option<Metadata>,
    #[prost(message, optional, tag = "3")]
    pub(super) status: Option<Status>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Metadata {
    #[prost(string, tag = "1")]
    pub(super) name: String,
    #[prost(map = "string, string", tag = "12")]
    pub(super) annotations: HashMap<String, String>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Status {
    #[prost(map = "string, message", tag = "2")]
    pub(super) allocatable: HashMap<String, Quantity>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Quantity {
    #[prost(string, tag = "1")]
    pub(super) text: String,
}
