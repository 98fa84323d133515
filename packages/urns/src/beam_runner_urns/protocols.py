"""URNs of the protocols that an SDK harness or a runner lists among its capabilities."""

from __future__ import annotations

# Capabilities of SDK harnesses.
LEGACY_PROGRESS_REPORTING = "beam:protocol:progress_reporting:v0"
PROGRESS_REPORTING = "beam:protocol:progress_reporting:v1"
WORKER_STATUS = "beam:protocol:worker_status:v1"
MULTI_CORE_BUNDLE_PROCESSING = "beam:protocol:multi_core_bundle_processing:v1"
SIBLING_WORKERS = "beam:protocol:sibling_workers:v1"
HARNESS_MONITORING_INFOS = "beam:protocol:harness_monitoring_infos:v1"
CONTROL_REQUEST_ELEMENTS_EMBEDDING = "beam:protocol:control_request_elements_embedding:v1"
STATE_CACHING = "beam:protocol:state_caching:v1"
DATA_SAMPLING = "beam:protocol:data_sampling:v1"
SDK_CONSUMING_RECEIVED_DATA = "beam:protocol:sdk_consuming_received_data:v1"
ORDERED_LIST_STATE = "beam:protocol:ordered_list_state:v1"
ELEMENT_METADATA = "beam:protocol:element_metadata:v1"
MULTIMAP_STATE = "beam:protocol:multimap_state:v1"
NAMED_DATA_STREAMS = "beam:protocol:named_data_streams:v1"

# Capabilities of runners.
MONITORING_INFO_SHORT_IDS = "beam:protocol:monitoring_info_short_ids:v1"
CONTROL_RESPONSE_ELEMENTS_EMBEDDING = "beam:protocol:control_response_elements_embedding:v1"
MULTIMAP_KEYS_VALUES_SIDE_INPUT = "beam:protocol:multimap_keys_values_side_input:v1"

# Prefix of the capability that names the SDK and its version, for example
# "...:apache/beam_python3.11_sdk:2.77.0".
SDK_BASE_VERSION_PREFIX = "beam:version:sdk_base:"
