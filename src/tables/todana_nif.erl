%% The native library, function by function.
%%
%% Not an API: arguments are positional, `Form' indicates which arguments the
%% caller has encoded, and misuse is returned, not raised. `todana' and the
%% processes of the application call it. native/nif/src documents the results of
%% each function.
-module(todana_nif).
-moduledoc false.

-export([
    get/2, get/3,
    put/3, put/4,
    put_dirty/4,
    put_large/4,
    put_with/7,
    put_with_dirty/7,
    get_entry/3,
    take/3,
    is_key/2, is_key/3,
    delete/4,
    expiry/3,
    expire/4,
    update_counter/3, update_counter/4,
    update_counter_with/6,
    get_many/3,
    put_many/4,
    put_all/5,
    put_all_dirty/5,
    delete_many/3,
    scan/3,
    scan_dirty/3,
    range/6,
    ordered_key/3,
    ordered_key_dirty/2,
    ordered_term/1,
    ordered_term_dirty/1,
    snapshot/1,
    snapshot_next/2,
    snapshot_next_dirty/2,
    snapshot_records/2,
    snapshot_records_dirty/2,
    snapshot_end/1,
    open/6,
    open_database/2,
    close/1,
    clear/2,
    delete_all/3,
    durable_table/1,
    durable_record/2,
    durable_tables/0,
    create_durable/6,
    drop_durable/2,
    open_durable/2,
    durable_withdraw/1,
    read_await/3,
    read_after/3,
    read_index/1,
    durable_state/0,
    spread_attach/1,
    spread_detach/0,
    spread_take/1,
    spread_select/2,
    spread_deliver/1,
    spread_dropped/1,
    question_attach/1,
    question_answer/2,
    interest_attach/1,
    interest_detach/0,
    interest_take/0,
    interest_full/0,
    interest_known/1,
    interest_note/3,
    interest_expect/1,
    interest_forget/1,
    persistence_attach/1,
    persistence_note/1,
    tables/0,
    handle/1,
    options/1,
    set_limits/2,
    counts/1,
    count/1,
    bytes/1,
    key_bytes/3,
    commit/4,
    commit_dirty/4,
    sweep/2,
    sweep_dirty/2,
    sweep_rest/0,
    release_memory/0,
    time_ms/1,
    set_memory_limit/2,
    set_databases/2,
    server_start/1,
    server_options/0,
    server_stop/1,
    server_stop_all/0,
    server_addresses/1,
    server_info/1,
    server_figures/1,
    server_longest_round_ms/1,
    server_check_password/3,
    server_incidents/1,
    server_slow_log/2,
    server_set_option/3,
    server_set_password/2,
    log_attach/1,
    instances/0,
    forward_interrupt/0,
    was_interrupted/0,
    receive_signals/0,
    run_program/2,
    subscribe/5,
    events/1,
    unsubscribe/1,
    lock_file/2,
    unlock_file/1,
    disk_free/1,
    extend_file/2,
    group_open/2,
    group_close/1,
    group_attach/2,
    group_take/2,
    group_take_dirty/2,
    group_forget/2,
    group_in_flight/1,
    group_formats/1,
    group_common_formats/3,
    group_apply/5,
    group_apply_dirty/5,
    group_load/1,
    group_applied/1,
    group_answered/1,
    group_read_attach/2,
    group_read_await/3,
    group_tables/1,
    group_read_begin/1,
    group_read_answered/3,
    group_read_failed/2,
    group_read_several/2,
    group_was_read/1,
    group_copies/3,
    cluster_topology/1,
    group_skip/2,
    group_reset/1,
    group_restore/2,
    group_gate/4,
    group_snapshot/2,
    group_snapshot_write/4,
    group_snapshot_end/2,
    group_tick/1,
    group_clock/1,
    group_clock_begin/2,
    group_clock_follow/4,
    group_clock_forget/1,
    group_clock_early/2,
    group_clock_correct/1,
    group_set_time/3,
    group_info/1,
    group_digest/1,
    group_digest_next/1,
    snapshot_verify_header/1,
    snapshot_verify/1,
    open_away/5,
    is_away/1,
    guest_wire/0,
    guest_open/0,
    guest_close/0,
    guest_attach/1,
    guest_seat/3,
    guest_lose_seat/0,
    guest_shut/1,
    guest_take/0,
    guest_answer/3,
    guest_answer_dirty/3,
    guest_changed/1,
    guest_changed_dirty/1,
    guest_index/0,
    guest_note_index/1,
    guest_forget_index/0,
    guest_info/0,
    seat_open/0,
    seat_receive/2,
    seat_go_on/1,
    seat_go_on_dirty/1,
    seat_tick/1,
    seat_facts/0
]).

-on_load(load/0).

-export_type([
    announcement/0,
    table/0, key/0, form/0, misuse/0, server/0, snapshot/0, bound/0, stored/0,
    range/0, listener/0, topology/0, topology_node/0,
    cause/0, order/0, group/0, figures/0, command_figures/0, loop_figures/0,
    answer/0, seat_facts/0
]).

%% What a node wants of the messages to channels.
-type announcement() ::
    {Number :: non_neg_integer(), IsFull :: boolean(), Items :: binary()}.
-type table() :: atom() | reference().
-type key() :: term().
-type server() :: reference().
%% The number of a group: `todana_raft_groups:id/0'. The functions `group_*'
%% raise `badarg' if no group of this number is open.
-type group() :: 0..63.
-type listener() :: resp | resp_cluster | memcached | kyoto.
-type topology() :: #{
    %% 40 hex digits.
    id := binary(),
    epoch := non_neg_integer(),
    nodes := [topology_node()],
    %% Positions among the nodes, from 0.
    own := non_neg_integer(),
    leader := non_neg_integer() | none,
    is_led := boolean()
}.
%% The offset is the last entry of the log that it is known to have.
-type topology_node() :: {
    Id :: binary(), Name :: binary(), Host :: binary(),
    RespPort :: inet:port_number(), RedirectPort :: inet:port_number(),
    IsConnected :: boolean(), Offset :: non_neg_integer()
}.
-type snapshot() :: reference().
%% What a member says of itself to its guests. `counts': of each numbered
%% database, its records, and those of them that expire.
-type seat_facts() :: #{
    counts => [{non_neg_integer(), non_neg_integer()}],
    atom() => non_neg_integer()
}.

%% Bit 1: the key is encoded, bit 2: the value is, bit 4: on a dirty scheduler.
-type bits() :: 0..7.
%% With a reference, a write to a durable table is submitted to the log; the
%% outcome comes with that reference: see `todana_durable'.
-type form() :: bits() | {bits(), reference()}.

%% `encode': encode key and value, and call again. `dirty': call the variant of
%% the function for dirty schedulers. Otherwise: the wrong argument and the
%% cause.
%% `durable': wait for the log, see `todana_durable'.
-type misuse() ::
    encode | dirty | durable | {badarg, non_neg_integer(), atom()}.
%% The number of the argument; 0 if the node cannot execute the call now.
-type cause() :: {badarg, non_neg_integer(), term()}.
%% Of a function whose form has a reference.
-type submitted() ::
    {submitted, pos_integer()} | busy | recovering | not_executed.

-type expires() ::
    table | never | keep | {at | ttl, non_neg_integer()}.
-type condition() ::
    always | absent | present | {version, non_neg_integer()}.
-type order() ::
    todana_kyoto_database:order() | term | term_descending | nil.
-type bound() :: unbounded | {included | excluded, key()}.
-type range() :: {between, bound(), bound()} | {prefix, term()}.
-type value() :: {ok, term()} | {encoded, binary()}.
-type fact() :: ok | error | {error, atom()} | submitted() | misuse().
%% A pair, or [{Key, IsEncoded} | {Value, IsEncoded}].
-type pair() :: {term(), term()} | nonempty_improper_list(term(), term()).
%% Key and value as the table stores them, flags, and expiry.
-type stored() ::
    {binary(), binary(), non_neg_integer(), non_neg_integer() | infinity}.
-type slice(Result) ::
    {done, Result}
    | {more, [term()], Result}
    | {misuse() | {error, atom()}, [term()], Result}
    | misuse().
%% The figures of a server.
-type command_figures() :: {
    Protocol :: binary(), Name :: binary(), Calls :: non_neg_integer(),
    Errors :: non_neg_integer(), Micros :: float(),
    Histogram :: [non_neg_integer()]
}.
-type loop_figures() :: {
    Connections :: non_neg_integer(), BusyNanos :: non_neg_integer(),
    RoundNanos :: non_neg_integer(), Histogram :: [non_neg_integer()]
}.
-type figure_pairs() :: [{binary(), number() | binary()}].
-type figures() :: #{
    server := figure_pairs(),
    databases := [figure_pairs()],
    commands := [command_figures()],
    loops := [loop_figures()]
}.

%% `newer': a newer version wrote the entry. `out_of_step': a bug of the caller.
-type applied() ::
    {more, Offset :: pos_integer()}
    | {long, Offset :: non_neg_integer()}
    | {done, IsSnapshotDue :: boolean()}
    | {newer, Sentence :: binary()}
    | out_of_step.
%% To a question of a client.
-type answer() ::
    none | non_neg_integer() | binary() | [answer()]
    | {map, [{answer(), answer()}]} | {error, Text :: binary()}.
-type verdict() :: ok | {damaged | newer | error, Sentence :: binary()}.

-spec load() -> ok | {error, term()}.
load() ->
    Beside = filename:join([filename:dirname(code:which(?MODULE)), "..",
                            "priv"]),
    Directory =
        case code:priv_dir(todana) of
            {error, bad_name} -> Beside;
            Priv -> Priv
        end,
    erlang:load_nif(filename:join(Directory, "todana_nif"), 0).

-spec get(table(), key()) -> value() | error | misuse().
get(_, _) -> erlang:nif_error(not_loaded).

-spec get(table(), key(), form()) -> value() | error | misuse().
get(_, _, _) -> erlang:nif_error(not_loaded).

-spec put(table(), key(), term()) -> fact().
put(_, _, _) -> erlang:nif_error(not_loaded).

-spec put(table(), key(), term(), form()) -> fact().
put(_, _, _, _) -> erlang:nif_error(not_loaded).

-spec put_dirty(reference(), key(), term(), form()) -> fact().
put_dirty(_, _, _, _) -> erlang:nif_error(not_loaded).

-spec put_large(table(), key(), [binary()], non_neg_integer()) -> fact().
put_large(_, _, _, _) -> erlang:nif_error(not_loaded).

-spec put_with(
    table(), key(), term(), condition(), expires(), non_neg_integer(), form()
) -> {ok, non_neg_integer()} | fact().
put_with(_, _, _, _, _, _, _) -> erlang:nif_error(not_loaded).

-spec put_with_dirty(
    reference(), key(), term(), condition(), expires(), non_neg_integer(),
    form()
) -> {ok, non_neg_integer()} | fact().
put_with_dirty(_, _, _, _, _, _, _) -> erlang:nif_error(not_loaded).

-spec get_entry(table(), key(), form()) ->
    {term(), non_neg_integer(), non_neg_integer(),
     non_neg_integer() | infinity, boolean(), non_neg_integer()}
    | error | misuse().
get_entry(_, _, _) -> erlang:nif_error(not_loaded).

-spec take(table(), key(), form()) -> value() | fact().
take(_, _, _) -> erlang:nif_error(not_loaded).

-spec is_key(table(), key()) -> boolean() | misuse().
is_key(_, _) -> erlang:nif_error(not_loaded).

-spec is_key(table(), key(), form()) -> boolean() | misuse().
is_key(_, _, _) -> erlang:nif_error(not_loaded).

-spec delete(table(), key(), condition(), form()) -> fact().
delete(_, _, _, _) -> erlang:nif_error(not_loaded).

-spec expiry(table(), key(), form()) ->
    {ok, non_neg_integer() | infinity} | fact().
expiry(_, _, _) -> erlang:nif_error(not_loaded).

-spec expire(table(), key(), expires(), form()) -> fact().
expire(_, _, _, _) -> erlang:nif_error(not_loaded).

-spec update_counter(table(), key(), integer()) -> {ok, integer()} | fact().
update_counter(_, _, _) -> erlang:nif_error(not_loaded).

-spec update_counter(table(), key(), integer(), form()) ->
    {ok, integer()} | fact().
update_counter(_, _, _, _) -> erlang:nif_error(not_loaded).

-spec update_counter_with(
    table(), key(), integer(), integer(), expires(), form()
) -> {ok, integer()} | fact().
update_counter_with(_, _, _, _, _, _) -> erlang:nif_error(not_loaded).

-spec get_many(table(), [key()], [{key(), value()}]) ->
    slice([{key(), value()}]).
get_many(_, _, _) -> erlang:nif_error(not_loaded).

-spec put_many(table(), [{key(), term()}], expires(), non_neg_integer()) ->
    slice(non_neg_integer()).
put_many(_, _, _, _) -> erlang:nif_error(not_loaded).

-spec put_all(table(), [{key(), term()}], expires(), boolean(), form()) ->
    fact().
put_all(_, _, _, _, _) -> erlang:nif_error(not_loaded).

-spec put_all_dirty(
    reference(), [{key(), term()}], expires(), boolean(), form()
) -> fact().
put_all_dirty(_, _, _, _, _) -> erlang:nif_error(not_loaded).

-spec delete_many(table(), [key()], non_neg_integer()) ->
    slice(non_neg_integer()).
delete_many(_, _, _) -> erlang:nif_error(not_loaded).

-spec scan(table(), non_neg_integer(), pos_integer()) ->
    {non_neg_integer(), [pair()]} | misuse().
scan(_, _, _) -> erlang:nif_error(not_loaded).

-spec scan_dirty(reference(), non_neg_integer(), pos_integer()) ->
    {non_neg_integer(), [pair()]} | misuse().
scan_dirty(_, _, _) -> erlang:nif_error(not_loaded).

-spec range(
    table(), range() | {encoded, range()}, binary() | nil, boolean(),
    pos_integer(), boolean()
) ->
    {binary() | done, [{term(), term()} | key()]}
    | {binary() | done, [pair()], term}
    | misuse().
range(_, _, _, _, _, _) -> erlang:nif_error(not_loaded).

-spec ordered_key(table(), term(), boolean()) -> binary() | misuse().
ordered_key(_, _, _) -> erlang:nif_error(not_loaded).

-spec ordered_key_dirty(term(), boolean()) ->
    binary() | {badarg, pos_integer(), atom()}.
ordered_key_dirty(_, _) -> erlang:nif_error(not_loaded).

-spec ordered_term(binary()) -> term().
ordered_term(_) -> erlang:nif_error(not_loaded).

-spec ordered_term_dirty(binary()) -> term().
ordered_term_dirty(_) -> erlang:nif_error(not_loaded).

-spec snapshot(table()) -> {ok, snapshot()} | {error, busy} | misuse().
snapshot(_) -> erlang:nif_error(not_loaded).

-spec snapshot_next(snapshot(), pos_integer()) ->
    {more | done | abandoned, [pair()]} | misuse().
snapshot_next(_, _) -> erlang:nif_error(not_loaded).

-spec snapshot_next_dirty(snapshot(), pos_integer()) ->
    {more | done | abandoned, [pair()]} | misuse().
snapshot_next_dirty(_, _) -> erlang:nif_error(not_loaded).

-spec snapshot_records(snapshot(), pos_integer()) ->
    {more | done | abandoned, [stored()]} | misuse().
snapshot_records(_, _) -> erlang:nif_error(not_loaded).

-spec snapshot_records_dirty(snapshot(), pos_integer()) ->
    {more | done | abandoned, [stored()]} | misuse().
snapshot_records_dirty(_, _) -> erlang:nif_error(not_loaded).

-spec snapshot_end(snapshot()) -> ok.
snapshot_end(_) -> erlang:nif_error(not_loaded).

-spec open(
    atom(),
    raw | term,
    non_neg_integer() | nil,
    {pos_integer() | nil, pos_integer() | nil, evict | refuse},
    pos_integer() | nil,
    order()
) -> {ok, reference()} | {error, exists | full}.
open(_, _, _, _, _, _) -> erlang:nif_error(not_loaded).

-spec open_database(atom(), non_neg_integer()) ->
    {ok, reference()} | {error, exists | full | no_such_database}.
open_database(_, _) -> erlang:nif_error(not_loaded).

-spec close(reference()) -> ok | misuse().
close(_) -> erlang:nif_error(not_loaded).

-spec clear(reference(), form()) ->
    non_neg_integer() | submitted() | misuse().
clear(_, _) -> erlang:nif_error(not_loaded).

-spec delete_all(reference(), [key()], form()) ->
    submitted() | misuse().
delete_all(_, _, _) -> erlang:nif_error(not_loaded).

-spec durable_table(binary()) ->
    {raw | term, pos_integer() | nil, order(), pos_integer() | nil} | none.
durable_table(_) -> erlang:nif_error(not_loaded).

-spec durable_record(Table :: binary(), Key :: binary()) -> binary() | none.
durable_record(_, _) -> erlang:nif_error(not_loaded).

-spec durable_tables() -> [binary()].
durable_tables() -> erlang:nif_error(not_loaded).

-spec create_durable(
    binary(), raw | term, pos_integer() | nil, order(), pos_integer() | nil,
    form()
) -> submitted().
create_durable(_, _, _, _, _, _) -> erlang:nif_error(not_loaded).

-spec drop_durable(binary(), form()) -> submitted().
drop_durable(_, _) -> erlang:nif_error(not_loaded).

-spec open_durable(atom(), binary()) ->
    {ok, reference()} | {error, exists | absent | full}.
open_durable(_, _) -> erlang:nif_error(not_loaded).

-spec read_await(table(), bounded | linear, reference()) ->
    fresh | {submitted, Ticket :: pos_integer()} | cause().
read_await(_, _, _) -> erlang:nif_error(not_loaded).

-spec read_after(table(), Index :: non_neg_integer(), reference()) ->
    fresh | {submitted, Ticket :: pos_integer()} | cause().
read_after(_, _, _) -> erlang:nif_error(not_loaded).

-spec read_index(table()) -> non_neg_integer() | cause().
read_index(_) -> erlang:nif_error(not_loaded).

-spec durable_withdraw(pos_integer()) -> not_executed | unknown | answered.
durable_withdraw(_) -> erlang:nif_error(not_loaded).

-spec spread_attach(pid()) -> ok.
spread_attach(_) -> erlang:nif_error(not_loaded).

-spec spread_detach() -> ok.
spread_detach() -> erlang:nif_error(not_loaded).

-spec spread_take([node()]) -> {binary(), [binary() | nothing]} | empty.
spread_take(_) -> erlang:nif_error(not_loaded).

-spec spread_select(binary(), [node()]) -> [binary() | nothing].
spread_select(_, _) -> erlang:nif_error(not_loaded).

-spec spread_deliver(binary()) -> ok.
spread_deliver(_) -> erlang:nif_error(not_loaded).

-spec spread_dropped(binary()) -> ok.
spread_dropped(_) -> erlang:nif_error(not_loaded).

-spec question_attach(pid()) -> ok.
question_attach(_) -> erlang:nif_error(not_loaded).

-spec question_answer(non_neg_integer(), answer()) -> ok.
question_answer(_, _) -> erlang:nif_error(not_loaded).

-spec interest_attach(pid()) -> Number :: non_neg_integer().
interest_attach(_) -> erlang:nif_error(not_loaded).

-spec interest_detach() -> ok.
interest_detach() -> erlang:nif_error(not_loaded).

-spec interest_take() -> announcement() | empty.
interest_take() -> erlang:nif_error(not_loaded).

-spec interest_full() -> announcement().
interest_full() -> erlang:nif_error(not_loaded).

-spec interest_known(none | non_neg_integer() | infinity) -> ok.
interest_known(_) -> erlang:nif_error(not_loaded).

-spec interest_note(node(), IsGuest :: boolean(), announcement()) -> boolean().
interest_note(_, _, _) -> erlang:nif_error(not_loaded).

-spec interest_expect(node()) -> ok.
interest_expect(_) -> erlang:nif_error(not_loaded).

-spec interest_forget(node()) -> ok.
interest_forget(_) -> erlang:nif_error(not_loaded).

-spec persistence_attach(pid()) ->
    {Done :: non_neg_integer(), Last :: non_neg_integer()}.
persistence_attach(_) -> erlang:nif_error(not_loaded).

-spec persistence_note(#{atom() => binary() | boolean() | integer() | none}) ->
    ok.
persistence_note(_) -> erlang:nif_error(not_loaded).

-spec durable_state() -> open | read_only | closed | none.
durable_state() -> erlang:nif_error(not_loaded).

-spec tables() -> [{atom(), reference()}].
tables() -> erlang:nif_error(not_loaded).

-spec handle(table()) -> reference() | misuse().
handle(_) -> erlang:nif_error(not_loaded).

-spec options(table()) ->
    {atom(), raw | term, non_neg_integer() | nil,
     {pos_integer() | nil, pos_integer() | nil, evict | refuse},
     order(), non_neg_integer() | nil,
     {pos_integer() | nil, pos_integer(), IsDurable :: boolean()}}
    | misuse().
options(_) -> erlang:nif_error(not_loaded).

-spec set_limits(table(), [{atom(), pos_integer() | nil | evict | refuse}]) ->
    ok | misuse().
set_limits(_, _) -> erlang:nif_error(not_loaded).

-spec counts(reference()) -> [{binary(), non_neg_integer()}] | misuse().
counts(_) -> erlang:nif_error(not_loaded).

-spec count(table()) -> non_neg_integer() | misuse().
count(_) -> erlang:nif_error(not_loaded).

-spec bytes(table()) -> non_neg_integer() | misuse().
bytes(_) -> erlang:nif_error(not_loaded).

-spec key_bytes(table(), key(), form()) -> binary() | misuse().
key_bytes(_, _, _) -> erlang:nif_error(not_loaded).

-spec commit(table(), [{key(), non_neg_integer()}], [tuple()], form()) ->
    ok | conflict | {error, full | too_large} | misuse().
commit(_, _, _, _) -> erlang:nif_error(not_loaded).

-spec commit_dirty(
    reference(), [{key(), non_neg_integer()}], [tuple()], form()
) -> ok | conflict | {error, full | too_large} | misuse().
commit_dirty(_, _, _, _) -> erlang:nif_error(not_loaded).

-spec sweep(table(), pos_integer()) ->
    {non_neg_integer(), boolean()} | misuse().
sweep(_, _) -> erlang:nif_error(not_loaded).

-spec sweep_dirty(reference(), pos_integer()) ->
    {non_neg_integer(), boolean()} | misuse().
sweep_dirty(_, _) -> erlang:nif_error(not_loaded).

-spec sweep_rest() -> Written :: non_neg_integer() | none.
sweep_rest() -> erlang:nif_error(not_loaded).

-spec release_memory() -> ok.
release_memory() -> erlang:nif_error(not_loaded).

-spec time_ms(table()) -> non_neg_integer().
time_ms(_) -> erlang:nif_error(not_loaded).

-spec set_memory_limit(pos_integer() | nil, evict | refuse) ->
    ok | {badarg, Name :: binary()}.
set_memory_limit(_, _) -> erlang:nif_error(not_loaded).

-spec set_databases(
    [{order(), pos_integer() | nil, pos_integer() | nil}],
    nil | {Seed :: non_neg_integer(), [0..15]}
) -> ok | {error, {has_records | in_use, 0..15}}.
set_databases(_, _) -> erlang:nif_error(not_loaded).

-spec server_start(map()) ->
    {ok, server()} | {error, binary()} | {badarg, Name :: binary()}.
server_start(_) -> erlang:nif_error(not_loaded).

-spec server_options() ->
    [{todana_options:name(), todana_options:type(), Default :: binary()}].
server_options() -> erlang:nif_error(not_loaded).

-spec server_stop(server()) -> ok.
server_stop(_) -> erlang:nif_error(not_loaded).

-spec server_stop_all() -> ok.
server_stop_all() -> erlang:nif_error(not_loaded).

-spec server_addresses(server()) ->
    [{binary(), binary(), 0..65535}] | stopped.
server_addresses(_) -> erlang:nif_error(not_loaded).

-spec server_info(server()) -> [{binary(), number() | binary()}].
server_info(_) -> erlang:nif_error(not_loaded).

-spec server_figures(server()) -> figures().
server_figures(_) -> erlang:nif_error(not_loaded).

-spec server_longest_round_ms(server()) -> non_neg_integer().
server_longest_round_ms(_) -> erlang:nif_error(not_loaded).

-spec server_check_password(
    server(), Password :: binary() | nil, Ip :: binary()
) -> {boolean(), DelayMs :: non_neg_integer()}.
server_check_password(_, _, _) -> erlang:nif_error(not_loaded).

-spec server_incidents(server()) -> [{binary(), non_neg_integer() | binary()}].
server_incidents(_) -> erlang:nif_error(not_loaded).

-spec server_slow_log(server(), Count :: non_neg_integer()) ->
    [{
        Id :: non_neg_integer(), AtS :: non_neg_integer(),
        Micros :: non_neg_integer(), Command :: binary(), Address :: binary()
    }].
server_slow_log(_, _) -> erlang:nif_error(not_loaded).

-spec server_set_option(server(), Name :: binary(), Value :: binary()) ->
    ok | {error, Sentence :: binary()}.
server_set_option(_, _, _) -> erlang:nif_error(not_loaded).

-spec server_set_password(server(), binary() | nil) ->
    ok | {error, Sentence :: binary()}.
server_set_password(_, _) -> erlang:nif_error(not_loaded).

-spec log_attach(pid()) -> ok.
log_attach(_) -> erlang:nif_error(not_loaded).

-spec instances() -> pos_integer().
instances() -> erlang:nif_error(not_loaded).

-spec forward_interrupt() -> ok | error.
forward_interrupt() -> erlang:nif_error(not_loaded).

-spec was_interrupted() -> boolean().
was_interrupted() -> erlang:nif_error(not_loaded).

-spec receive_signals() -> ok | error.
receive_signals() -> erlang:nif_error(not_loaded).

-spec run_program(Path :: binary(), Arguments :: [binary()]) -> ok | error.
run_program(_, _) -> erlang:nif_error(not_loaded).

-spec subscribe(
    reference(),
    all | {prefix, binary()} | {key, key()},
    [put | delete | expire | evict | clear | swap],
    pos_integer(),
    form()
) -> {ok, reference()} | {error, too_many_subscriptions} | misuse().
subscribe(_, _, _, _, _) -> erlang:nif_error(not_loaded).

-spec events(reference()) ->
    [{atom(), key(), non_neg_integer()}
     | {atom(), binary(), non_neg_integer(), encoded}
     | {clear | swap | lost, non_neg_integer()}]
    | misuse().
events(_) -> erlang:nif_error(not_loaded).

-spec unsubscribe(reference()) -> ok | misuse().
unsubscribe(_) -> erlang:nif_error(not_loaded).

%% -------------------------------------------------------------- durable ---

-spec lock_file(Path :: binary(), Holder :: binary()) ->
    ok | {locked, Holder :: binary()} | {error, Sentence :: binary()}.
lock_file(_, _) -> erlang:nif_error(not_loaded).

-spec unlock_file(Path :: binary()) -> ok.
unlock_file(_) -> erlang:nif_error(not_loaded).

-spec disk_free(Path :: binary()) ->
    {ok, non_neg_integer()} | {error, Sentence :: binary()}.
disk_free(_) -> erlang:nif_error(not_loaded).

-spec extend_file(Path :: binary(), Bytes :: non_neg_integer()) ->
    ok | {error, Sentence :: binary()}.
extend_file(_, _) -> erlang:nif_error(not_loaded).

-spec group_open(group(), #{atom() => pos_integer() | auto}) ->
    ok | no_durable_databases.
group_open(_, _) -> erlang:nif_error(not_loaded).

-spec group_close(group()) -> ok.
group_close(_) -> erlang:nif_error(not_loaded).

-spec group_attach(group(), pid()) -> ok.
group_attach(_, _) -> erlang:nif_error(not_loaded).

-spec group_take(group(), InFlight :: non_neg_integer()) ->
    {Sequence :: pos_integer(), binary()} | empty | long.
group_take(_, _) -> erlang:nif_error(not_loaded).

-spec group_take_dirty(group(), InFlight :: non_neg_integer()) ->
    {Sequence :: pos_integer(), binary()} | empty.
group_take_dirty(_, _) -> erlang:nif_error(not_loaded).

-spec group_forget(group(), Sequence :: pos_integer()) -> ok.
group_forget(_, _) -> erlang:nif_error(not_loaded).

-spec group_in_flight(group()) -> [Sequence :: pos_integer()].
group_in_flight(_) -> erlang:nif_error(not_loaded).

-doc """
The newest format of batches that this node reads; that all members read, which
it writes for a command that needs it; and that it writes in any case.
""".
-spec group_formats(group()) ->
    {
        Newest :: pos_integer(),
        Common :: pos_integer(),
        Unasked :: pos_integer()
    }.
group_formats(_) -> erlang:nif_error(not_loaded).

-spec group_common_formats(group(), pos_integer(), pos_integer()) -> ok.
group_common_formats(_, _, _) -> erlang:nif_error(not_loaded).

-spec group_apply(
    group(), binary(), Offset :: non_neg_integer(), Index :: pos_integer(),
    TimeMs :: non_neg_integer()
) -> applied().
group_apply(_, _, _, _, _) -> erlang:nif_error(not_loaded).

-spec group_apply_dirty(
    group(), binary(), Offset :: non_neg_integer(), Index :: pos_integer(),
    TimeMs :: non_neg_integer()
) -> applied().
group_apply_dirty(_, _, _, _, _) -> erlang:nif_error(not_loaded).

-spec group_applied(group()) -> non_neg_integer().
group_applied(_) -> erlang:nif_error(not_loaded).

-spec group_answered(group()) -> non_neg_integer().
group_answered(_) -> erlang:nif_error(not_loaded).

-spec group_read_attach(group(), pid()) -> ok.
group_read_attach(_, _) -> erlang:nif_error(not_loaded).

-spec group_read_await(group(), bounded | linear, reference()) ->
    fresh | {submitted, Ticket :: pos_integer()} | cause().
group_read_await(_, _, _) -> erlang:nif_error(not_loaded).

-spec group_tables(group()) -> [binary()] | cause().
group_tables(_) -> erlang:nif_error(not_loaded).

-spec group_read_begin(group()) -> Question :: pos_integer().
group_read_begin(_) -> erlang:nif_error(not_loaded).

-spec group_read_answered(
    group(), Question :: pos_integer(), Index :: non_neg_integer()
) -> ok.
group_read_answered(_, _, _) -> erlang:nif_error(not_loaded).

-spec group_read_failed(group(), Question :: pos_integer()) -> boolean().
group_read_failed(_, _) -> erlang:nif_error(not_loaded).

-doc "What clients learn about the cluster from now on.".
-spec cluster_topology(topology() | none) -> ok.
cluster_topology(_) -> erlang:nif_error(not_loaded).

-spec group_read_several(group(), Others :: non_neg_integer()) -> ok.
group_read_several(_, _) -> erlang:nif_error(not_loaded).

-spec group_was_read(group()) -> boolean().
group_was_read(_) -> erlang:nif_error(not_loaded).

%% The last entries that other members have on disk, and how many of them have
%% each confirmed entry anyway, as a part of the majority.
-spec group_copies(
    group(), AtLeast :: non_neg_integer(), Known :: [non_neg_integer()]
) -> ok.
group_copies(_, _, _) -> erlang:nif_error(not_loaded).

-spec group_skip(group(), pos_integer()) -> ok.
group_skip(_, _) -> erlang:nif_error(not_loaded).

-spec group_load(group()) -> non_neg_integer().
group_load(_) -> erlang:nif_error(not_loaded).

-spec group_reset(group()) -> ok.
group_reset(_) -> erlang:nif_error(not_loaded).

-spec group_restore(group(), Path :: binary()) -> verdict().
group_restore(_, _) -> erlang:nif_error(not_loaded).

-spec group_gate(
    group(), closed | open | read_only | removals | no_leader,
    Reason :: binary(), Load :: non_neg_integer()
) -> ok.
group_gate(_, _, _, _) -> erlang:nif_error(not_loaded).

-spec group_snapshot(group(), Index :: pos_integer()) -> ok | busy.
group_snapshot(_, _) -> erlang:nif_error(not_loaded).

-spec group_snapshot_write(
    group(), Index :: pos_integer(), Path :: binary(), Bytes :: pos_integer()
) -> more | {done, FileBytes :: non_neg_integer()} | {error, binary()}.
group_snapshot_write(_, _, _, _) -> erlang:nif_error(not_loaded).

-spec group_snapshot_end(group(), Index :: pos_integer()) -> ok.
group_snapshot_end(_, _) -> erlang:nif_error(not_loaded).

-spec group_tick(group()) -> ok.
group_tick(_) -> erlang:nif_error(not_loaded).

-spec group_clock(group()) ->
    {Era :: non_neg_integer(), NowMs :: non_neg_integer(), EarlyMs :: integer()}
    | unknown.
group_clock(_) -> erlang:nif_error(not_loaded).

-spec group_clock_begin(group(), NowMs :: non_neg_integer()) -> ok.
group_clock_begin(_, _) -> erlang:nif_error(not_loaded).

-spec group_clock_follow(
    group(), Era :: non_neg_integer(), NowMs :: non_neg_integer(),
    EarlyMs :: integer()
) -> ok.
group_clock_follow(_, _, _, _) -> erlang:nif_error(not_loaded).

-spec group_clock_forget(group()) -> ok.
group_clock_forget(_) -> erlang:nif_error(not_loaded).

-spec group_clock_early(group(), EarlyMs :: integer()) -> ok.
group_clock_early(_, _) -> erlang:nif_error(not_loaded).

-spec group_clock_correct(group()) -> IsWrong :: boolean().
group_clock_correct(_) -> erlang:nif_error(not_loaded).

-spec group_set_time(group(), TimeMs :: non_neg_integer(), form()) ->
    submitted().
group_set_time(_, _, _) -> erlang:nif_error(not_loaded).

-spec group_info(group()) -> #{atom() => term()}.
group_info(_) -> erlang:nif_error(not_loaded).

-spec group_digest(group()) -> {ok, Digest :: reference()} | {error, busy}.
group_digest(_) -> erlang:nif_error(not_loaded).

-spec group_digest_next(Digest :: reference()) ->
    more | {done, non_neg_integer()} | {error, abandoned}.
group_digest_next(_) -> erlang:nif_error(not_loaded).

-spec snapshot_verify_header(Path :: binary()) -> verdict().
snapshot_verify_header(_) -> erlang:nif_error(not_loaded).

-spec snapshot_verify(Path :: binary()) -> verdict().
snapshot_verify(_) -> erlang:nif_error(not_loaded).

%% --------------------------------------------------------------- guests ---

-spec open_away(
    atom(), raw | term, pos_integer() | nil, order(), pos_integer() | nil
) -> {ok, reference()} | {error, exists | full}.
open_away(_, _, _, _, _) -> erlang:nif_error(not_loaded).

-spec is_away(table()) -> boolean().
is_away(_) -> erlang:nif_error(not_loaded).

-doc "The version of what a guest and its seat send each other.".
-spec guest_wire() -> pos_integer().
guest_wire() -> erlang:nif_error(not_loaded).

-spec guest_open() -> ok.
guest_open() -> erlang:nif_error(not_loaded).

-spec guest_close() -> ok.
guest_close() -> erlang:nif_error(not_loaded).

-spec guest_attach(pid()) -> ok.
guest_attach(_) -> erlang:nif_error(not_loaded).

-spec guest_seat(atom(), seat_facts(), Reason :: binary()) -> ok.
guest_seat(_, _, _) -> erlang:nif_error(not_loaded).

-spec guest_lose_seat() -> ok.
guest_lose_seat() -> erlang:nif_error(not_loaded).

-spec guest_shut(Reason :: binary()) -> ok.
guest_shut(_) -> erlang:nif_error(not_loaded).

-spec guest_take() -> {ok, Parcel :: binary()} | empty.
guest_take() -> erlang:nif_error(not_loaded).

-spec guest_answer(
    Answers :: binary(), Index :: non_neg_integer(), Full :: 0..65_535
) -> ok | dirty.
guest_answer(_, _, _) -> erlang:nif_error(not_loaded).

-spec guest_answer_dirty(
    Answers :: binary(), Index :: non_neg_integer(), Full :: 0..65_535
) -> ok.
guest_answer_dirty(_, _, _) -> erlang:nif_error(not_loaded).

-spec guest_changed(Changes :: binary()) -> ok | dirty.
guest_changed(_) -> erlang:nif_error(not_loaded).

-spec guest_changed_dirty(Changes :: binary()) -> ok.
guest_changed_dirty(_) -> erlang:nif_error(not_loaded).

-doc "The last entry of the log of which somebody here has an answer.".
-spec guest_index() -> non_neg_integer().
guest_index() -> erlang:nif_error(not_loaded).

-spec guest_note_index(non_neg_integer()) -> ok.
guest_note_index(_) -> erlang:nif_error(not_loaded).

-doc "The log of the members is another one.".
-spec guest_forget_index() -> ok.
guest_forget_index() -> erlang:nif_error(not_loaded).

-spec guest_info() ->
    {
        open | read_only | closed,
        QueueBytes :: non_neg_integer(),
        Sent :: non_neg_integer()
    }.
guest_info() -> erlang:nif_error(not_loaded).

-spec seat_open() -> reference().
seat_open() -> erlang:nif_error(not_loaded).

-spec seat_receive(reference(), Parcel :: binary()) -> boolean().
seat_receive(_, _) -> erlang:nif_error(not_loaded).

-spec seat_go_on(reference()) ->
    {
        nothing | busy | more | long,
        Changes :: binary(),
        Answers :: binary(),
        Index :: non_neg_integer(),
        Full :: 0..65_535
    }.
seat_go_on(_) -> erlang:nif_error(not_loaded).

-spec seat_go_on_dirty(reference()) ->
    {
        nothing | busy | more | long,
        Changes :: binary(),
        Answers :: binary(),
        Index :: non_neg_integer(),
        Full :: 0..65_535
    }.
seat_go_on_dirty(_) -> erlang:nif_error(not_loaded).

-spec seat_tick(reference()) ->
    {
        ok,
        Changes :: binary(),
        Answers :: binary(),
        Index :: non_neg_integer(),
        Full :: 0..65_535
    }.
seat_tick(_) -> erlang:nif_error(not_loaded).

-spec seat_facts() ->
    {
        open | read_only | removals | no_leader | closed,
        seat_facts(),
        Reason :: binary()
    }.
seat_facts() -> erlang:nif_error(not_loaded).
