%% Decides whether claims may be written, and writes them; and removes names. A
%% member does this itself. A guest has its seat write claims: one message each
%% way for all that is read, compared and written. The basis makes sure that a
%% seat which was lost does not write them late.
-module(todana_claim_writes).
-moduledoc false.

-export([write/4, remove/3, annotate/3]).
%% Where the records are
-export([write_here/4, remove_here/4]).

-export_type([request/0, owner/0]).

-type table() :: todana_scope_records:table().
-type key() :: todana_scope_records:key().
-type token() :: todana_scope_records:token().
-type ref() :: todana_scope_records:ref().
-type found() :: todana_scope_records:name_found().
-type failure() :: todana_scope_records:failure().
-type basis() :: todana_claim_basis:basis().
%% A name is registered if nobody has it, as far as the records say, or by the
%% registration `Ended`, whose process has ended. It is moved if this is its
%% token.
-type request() ::
    {register, Metadata :: term(), Ended :: ref() | none}
    | {move, token()}
    | join.
%% A process, and its registration.
-type owner() :: {pid(), ref()} | none.
%% The token of a name that was unregistered at this moment is gone.
-type written() ::
    {written, token() | gone | none}
    | {other, basis()}
    | {no, owner()}
    | failure().

%% How long a question to the leader takes at most.
-define(LATEST_MS, 2_000).

-doc """
Writes claims of a session in one step, if the basis is the same. Otherwise it
returns the present one.
""".
-spec write(table(), basis(), [todana_claim_watcher:claim(), ...], request()) ->
    written().
write(Table, Basis, Claims, Request) ->
    todana_scope_records:at(
        Table, ?MODULE, write_here, [Basis, Claims, Request]
    ).

-doc "The same on this node.".
-spec write_here(
    table(), basis(), [todana_claim_watcher:claim(), ...], request()
) -> written().
write_here(Table, Basis, Claims, Request) ->
    case write_once(Table, Basis, Claims, Request) of
        %% Another node may have freed the name a moment ago.
        {no, _} ->
            maybe
                ok ?= todana_scope_records:refresh(Table, linear, ?LATEST_MS),
                write_once(Table, Basis, Claims, Request)
            end;
        Result ->
            Result
    end.

-spec write_once(
    table(), basis(), [todana_claim_watcher:claim(), ...], request()
) -> written().
write_once(Table, Basis, [Claim | _] = Claims, Request) ->
    #{key := Key} = Claim,
    {_Generation, _Session, OfSession} = Basis,
    Written = todana_scope_records:change(Table, Key, fun(Found) ->
        maybe
            ok ?= is_same(Table, Basis),
            {yes, Rest, Checks, Removals} ?=
                permits(Request, Table, Basis, Key, Found),
            {commit, [OfSession | Checks], Removals ++ writes(Claims, Rest),
             {written, released(Table, Found)}}
        end
    end),
    case Written of
        {written, _Replaced} when Request =:= join ->
            {written, none};
        {written, Replaced} ->
            ok = release(Replaced),
            token_of(Table, Basis, Claim);
        NotWritten ->
            NotWritten
    end.

-spec is_same(table(), basis()) -> ok | {other, basis()} | failure().
is_same(Table, {_, Session, _} = Basis) ->
    case todana_claim_basis:basis(Table, Session) of
        {ok, Basis} -> ok;
        {ok, Now} -> {other, Now};
        Failure -> Failure
    end.

%% What the values have behind process and reference, what else has to be
%% unchanged, and what is removed.
-spec permits(request(), table(), basis(), key(), found()) ->
    {yes, Rest :: [term()], [todana_scope_records:check()],
     [todana_commit:write()]}
    | {no, owner()} | failure().
permits(join, _Table, _Basis, _Key, _Found) ->
    {yes, [], [], []};
permits(Request, Table, {Generation, Session, _}, Key, Found) ->
    maybe
        {ok, Era, Check} ?= todana_scope_records:era(Table, Generation),
        {yes, Metadata, Checks} ?= may_have(Request, Table, Found),
        Removed = before(Session, Key, Found),
        {yes, [{era, Era}, Metadata], [Check | Checks], Removed}
    end.

-spec may_have(request(), table(), found()) ->
    {yes, Metadata :: term(), [todana_scope_records:check()]}
    | {no, owner()} | failure().
may_have({register, Metadata, Ended}, Table, Found) ->
    case is_free(Table, Ended, Found) of
        {yes, Checks} -> {yes, Metadata, Checks};
        Owned -> Owned
    end;
may_have({move, Token}, _Table, Found) ->
    case {todana_scope_records:token(Found), Found} of
        {Token, {ok, {_, _, _, Metadata}, _}} -> {yes, Metadata, []};
        _ -> {no, none}
    end.

%% Whether nobody has the name: its process has ended, or its session has.
-spec is_free(table(), ref() | none, found()) ->
    {yes, [todana_scope_records:check()]} | {no, owner()} | failure().
is_free(_Table, _Ended, {none, _State}) ->
    {yes, []};
is_free(_Table, Ref, {ok, {_Pid, Ref, _Origin, _Metadata}, _State}) ->
    {yes, []};
is_free(Table, _Ended, {ok, {Pid, {Session, _} = Ref, _, _}, _State}) ->
    case todana_watchers:has_ended(Pid) of
        true ->
            {yes, []};
        false ->
            case todana_scope_records:session(Table, Session) of
                {ok, {_Node, live}, _} -> {no, {Pid, Ref}};
                {error, _} = Failure -> Failure;
                Over -> {yes, [todana_scope_records:check(Session, Over)]}
            end
    end.

%% What the owner before has, if it is in another session: in this one, it is
%% written over.
-spec before(todana_scope_records:session(), key(), found()) ->
    [todana_commit:write()].
before(Session, Key, {ok, {_, {Other, _} = Ref, _, _}, _}) when
    Other =/= Session
->
    [_OfName, OfOwner] = todana_scope_records:removal(Key, Ref),
    [OfOwner];
before(_Session, _Key, _Found) ->
    [].

-spec writes([todana_claim_watcher:claim()], [term()]) ->
    [todana_commit:write()].
writes(Claims, Rest) ->
    [
        Write
     || #{key := Key, pid := Pid, ref := Ref, on_loss := OnLoss} <- Claims,
        Write <- todana_scope_records:writes(
            Key, list_to_tuple([Pid, Ref | Rest]), OnLoss
        )
    ].

%% In another generation, the token is perhaps one that was given before.
-spec token_of(table(), basis(), todana_claim_watcher:claim()) -> written().
token_of(Table, Basis, #{key := Key, ref := Ref}) ->
    IsSame = todana_claim_basis:is_same_generation(Basis),
    case IsSame andalso todana_scope_records:read(Table, Key) of
        {ok, {_, Ref, _, _}, _} = Found ->
            {written, todana_scope_records:token(Found)};
        %% Somebody has unregistered the name already.
        {ok, _, _} ->
            {written, gone};
        {none, _} ->
            {written, gone};
        _Unknown ->
            {error, unknown}
    end.

-spec owner(todana_scope_records:found(tuple())) -> owner().
owner({ok, Value, _}) -> {element(1, Value), element(2, Value)};
owner({none, _}) -> none.

%% Its watcher has to know no more of it. If its session has ended, that is for
%% its own node, which informs the process.
-spec released(table(), todana_scope_records:found(tuple())) -> owner().
released(Table, Found) ->
    case owner(Found) of
        {_Pid, {Session, _}} = Owner ->
            case todana_scope_records:session(Table, Session) of
                {ok, {_Node, live}, _} -> Owner;
                _ -> none
            end;
        none ->
            none
    end.

-spec release(owner()) -> ok.
release({Pid, Ref}) -> todana_claim_watcher:release(Pid, Ref);
release(none) -> ok.

-doc """
Frees a name, whichever process has it, or if this is its token. `no` if none
has it. A guest reads and then writes, by two calls: one that is executed late
changes only the registration that was read.
""".
-spec remove(table(), key(), token() | any) -> ok | no | failure().
remove(Table, Key, Token) ->
    todana_scope_records:change_latest(Table, Key, ?LATEST_MS, fun
        ({none, _State}) ->
            no;
        ({ok, _Value, State} = Found) ->
            case todana_scope_records:token(Found) of
                Is when Token =:= any; Token =:= Is ->
                    Arguments = [Key, State, owner(Found)],
                    {at, ?MODULE, remove_here, Arguments, ok};
                _Another ->
                    no
            end
    end).

-doc "Removes the registration of a name that is in this state.".
-spec remove_here(table(), key(), todana_commit:state(), {pid(), ref()}) ->
    ok | conflict | failure().
remove_here(Table, Key, State, {_Pid, Ref} = Owner) ->
    Writes = todana_scope_records:removal(Key, Ref),
    case todana_scope_records:commit(Table, [{Key, State}], Writes) of
        ok -> release(Owner);
        NotRemoved -> NotRemoved
    end.

-doc "Changes the metadata of a name. The same holds for it.".
-spec annotate(table(), key(), term()) -> ok | error | failure().
annotate(Table, Key, Metadata) ->
    todana_scope_records:change_latest(Table, Key, ?LATEST_MS, fun
        ({none, _State}) ->
            error;
        ({ok, {Pid, Ref, _, _}, _} = Found) ->
            Token = todana_scope_records:token(Found),
            Value = {Pid, Ref, {token, Token}, Metadata},
            case todana_watchers:has_ended(Pid) of
                true ->
                    error;
                false ->
                    [OfName, _] = todana_scope_records:writes(
                        Key, Value, {silent, nothing}
                    ),
                    {commit, [], [OfName], ok}
            end
    end).
