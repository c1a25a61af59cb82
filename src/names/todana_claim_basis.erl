%% The basis of a claim: the generation of the records and the record of the
%% session, each as it was before the watcher of the claim was informed. The
%% claim is written only if both are unchanged.
%%
%% They change rarely. So a guest keeps the last ones that it knows, and a
%% registration is one message to the seat, which compares them.
-module(todana_claim_basis).
-moduledoc false.

-export([get/2, keep/2, forget/1, is_same_generation/1]).
-export([create/0]).
%% Where the records are
-export([basis/2]).

-export_type([basis/0]).

-type table() :: todana_scope_records:table().
-type session() :: todana_scope_records:session().
-type basis() :: {
    todana_scope_records:generation(), session(),
    todana_scope_records:check()
}.
-type failure() :: todana_scope_records:failure().

-doc "What this node keeps, in a table of the process that calls this.".
-spec create() -> ok.
create() ->
    ?MODULE = ets:new(?MODULE, [named_table, public, {read_concurrency, true}]),
    ok.

-doc "The basis of a claim that is to be submitted now.".
-spec get(table(), session()) -> {ok, basis()} | failure().
get(Table, Session) ->
    case todana_guest:is_guest() andalso kept(Session) of
        false ->
            basis(Table, Session);
        none ->
            maybe
                {ok, Basis} ?= todana_scope_records:at(
                    Table, ?MODULE, basis, [Session]
                ),
                ok = keep(Session, Basis),
                {ok, Basis}
            end;
        Basis ->
            {ok, Basis}
    end.

-spec kept(session()) -> basis() | none.
kept(Session) ->
    try
        ets:lookup_element(?MODULE, Session, 2, none)
    catch
        %% The process that has the table is being restarted.
        error:badarg -> none
    end.

-doc "A guest has learned that this is the basis.".
-spec keep(session(), basis()) -> ok.
keep(Session, Basis) ->
    _ = todana_guest:is_guest() andalso
        try
            ets:insert(?MODULE, {Session, Basis})
        catch
            error:badarg -> false
        end,
    ok.

-doc "The session has changed, or has ended.".
-spec forget(session()) -> ok.
forget(Session) ->
    _ = try
        ets:delete(?MODULE, Session)
    catch
        error:badarg -> false
    end,
    ok.

-doc "Whether no writes were given up since.".
-spec is_same_generation(basis()) -> boolean().
is_same_generation({Generation, _Session, _Check}) ->
    todana_scope_records:generation() =:= Generation.

-doc "`unavailable` if the session has ended.".
-spec basis(table(), session()) -> {ok, basis()} | failure().
basis(Table, Session) ->
    case todana_scope_records:session(Table, Session) of
        {ok, {_Node, live}, _} = Live ->
            case todana_scope_records:generation() of
                unknown ->
                    {error, unavailable};
                Generation ->
                    Check = todana_scope_records:check(Session, Live),
                    {ok, {Generation, Session, Check}}
            end;
        {error, _} = Failure ->
            Failure;
        %% This node has no other one yet.
        _Ended ->
            {error, unavailable}
    end.
