<?php
// SPDX-License-Identifier: ISC
// PDO, and Doctrine DBAL of Debian above it. Six processes, as PHP has them, one connection each.

const CONNECTIONS = 6;
const ROUNDS = 3;
const PAYLOADS = ['0', '1', '2', 'own'];

function same(mixed $got, mixed $wanted): void
{
	if ($got !== $wanted)
		throw new Exception(json_encode($got) . ', not ' . json_encode($wanted));
}

function connect(): PDO
{
	$address = 'pgsql:host=' . getenv('PGHOST') . ';port=' . getenv('PGPORT') . ';dbname='
		. getenv('PGDATABASE');
	$options = [PDO::ATTR_ERRMODE => PDO::ERRMODE_EXCEPTION];
	if ($GLOBALS['argv'][1] === 'emulated')
		$options[PDO::ATTR_EMULATE_PREPARES] = true;
	return new PDO($address, getenv('PGUSER'), '', $options);
}

function ask(PDO $connection, string $sql, mixed ...$values): mixed
{
	$statement = $connection->prepare($sql);
	$statement->execute($values);
	$row = $statement->columnCount() ? $statement->fetch(PDO::FETCH_NUM) : false;
	return $row ? $row[0] : null;
}

// PDO asks for lastval() unless it is given the name of a sequence. A pool whose servers have values
// of others refuses the first question of a client; from then on its values are kept for it.
function last_insert_id(PDO $connection, string $who): void
{
	try {
		$connection->lastInsertId();
	} catch (PDOException $error) {
		same($error->getCode(), '55000');
	}
	for ($i = 0; $i < 5; $i++) {
		ask($connection, 'INSERT INTO driver_numbers (who) VALUES (?)', "$who $i");
		$id = $connection->lastInsertId();
		same(ask($connection, 'SELECT who FROM driver_numbers WHERE id = ?', $id), "$who $i");
	}
	ask($connection, 'INSERT INTO driver_numbers (who) VALUES (?)', $who);
	$id = $connection->lastInsertId('driver_numbers_id_seq');
	same(ask($connection, 'SELECT who FROM driver_numbers WHERE id = ?', $id), $who);
	$connection->beginTransaction();
	ask($connection, 'INSERT INTO driver_numbers (who) VALUES (?)', "$who undone");
	$id = $connection->lastInsertId();
	same(ask($connection, 'SELECT who FROM driver_numbers WHERE id = ?', $id), "$who undone");
	$connection->rollBack();
}

function notifications(PDO $connection, string $who): void
{
	$channel = 'channel_' . substr($who, -1);
	$connection->exec("LISTEN $channel");
	$other = connect();
	foreach (array_slice(PAYLOADS, 0, -1) as $payload)
		ask($other, 'SELECT pg_notify(?, ?)', $channel, $payload);
	$connection->exec("NOTIFY $channel, 'own'");
	$told = [];
	while (count($told) < count(PAYLOADS))
		if ($said = $connection->pgsqlGetNotify(PDO::FETCH_NUM, 10000))
			$told[] = $said[2];
	$connection->exec("UNLISTEN $channel");
	$connection->exec("NOTIFY $channel, 'nobody listens'");
	same($connection->pgsqlGetNotify(), false);
	same($told, PAYLOADS);
}

function execute(PDO $connection, string $sql): ?string
{
	$rows = $connection->query($sql);
	$row = $rows->columnCount() ? $rows->fetch(PDO::FETCH_NUM) : false;
	return $row ? $row[0] : null;
}

// A line of session.txt: scenario, statement, and the result if there is one to check.
function follow(PDO $connection, string $who, array $steps): void
{
	foreach ($steps as [$sql, $result]) {
		$sql = str_replace('{n}', substr($who, -1), $sql);
		try {
			$got = execute($connection, $sql);
		} catch (PDOException $error) {
			if ($result === '*')
				continue;
			throw new Exception("$sql: " . $error->getMessage());
		}
		if ($result !== null && $result !== '*')
			same([$sql, $got], [$sql, str_replace('{n}', substr($who, -1), $result)]);
	}
}

function doctrine(PDO $_connection, string $who): void
{
	static $dbal = null;
	$dbal ??= Doctrine\DBAL\DriverManager::getConnection([
		'driver' => 'pdo_pgsql', 'host' => getenv('PGHOST'), 'port' => (int)getenv('PGPORT'),
		'dbname' => getenv('PGDATABASE'), 'user' => getenv('PGUSER'), 'charset' => 'utf8']);
	$table = 'dbal_' . substr($who, -1);
	$schema = new Doctrine\DBAL\Schema\Schema();
	$columns = $schema->createTable($table);
	$columns->addColumn('id', 'integer', ['autoincrement' => true]);
	$columns->addColumn('name', 'text');
	$columns->setPrimaryKey(['id']);
	$dbal->executeStatement("DROP TABLE IF EXISTS $table");
	foreach ($schema->toSql($dbal->getDatabasePlatform()) as $sql)
		$dbal->executeStatement($sql);
	same($dbal->createSchemaManager()->tablesExist([$table]), true);
	$dbal->setTransactionIsolation(Doctrine\DBAL\TransactionIsolationLevel::SERIALIZABLE);
	for ($i = 0; $i < 3; $i++) {
		$dbal->insert($table, ['name' => "$who $i"]);
		try {
			$id = $dbal->lastInsertId();
		} catch (Doctrine\DBAL\Exception $error) {
			same([$i, $error->getSQLState()], [0, '55000']);
			continue;
		}
		same($dbal->fetchOne("SELECT name FROM $table WHERE id = ?", [$id]), "$who $i");
	}
	same($dbal->fetchOne('SHOW transaction_isolation'), 'serializable');
	$dbal->transactional(function ($dbal) use ($table, $who) {
		$dbal->executeStatement("UPDATE $table SET name = ?", [$who]);
		same($dbal->fetchOne('SHOW transaction_isolation'), 'serializable');
	});
	$dbal->setTransactionIsolation(Doctrine\DBAL\TransactionIsolationLevel::READ_COMMITTED);
	same($dbal->fetchOne("SELECT DISTINCT name FROM $table"), $who);
	$dbal->executeStatement("DROP TABLE $table");
}

function scenarios(): array
{
	$steps = [];
	foreach (file('session.txt', FILE_IGNORE_NEW_LINES) as $line) {
		$fields = explode("\t", $line);
		if (count($fields) > 1 && $line[0] !== '#')
			$steps[$fields[0]][] = [$fields[1], $fields[2] ?? null];
	}
	$all = [];
	foreach ($steps as $name => $list)
		$all[$name] = fn ($connection, $who) => follow($connection, $who, $list);
	return $all + ['listen' => notifications(...), 'last_insert_id' => last_insert_id(...),
		'doctrine' => doctrine(...)];
}

function work(int $number): void
{
	$scenarios = scenarios();
	$names = array_keys($scenarios);
	$name = 'connect';
	try {
		$connection = connect();
		for ($i = 0; $i < ROUNDS * count($names); $i++) {
			$name = $names[($i + $number) % count($names)];
			$scenarios[$name]($connection, "connection $number");
			echo "ok $name\n";
		}
	} catch (Throwable $error) {
		echo "failed $name connection $number: ", strtr((string)$error, "\n", ' '), "\n";
	}
}

require 'Doctrine/DBAL/autoload.php';
$number = getenv('WORKER');
if ($number !== false) {
	work((int)$number);
	exit;
}
$workers = [];
for ($i = 0; $i < CONNECTIONS; $i++)
	$workers[] = proc_open([PHP_BINARY, ...$argv], [1 => STDOUT, 2 => STDERR], $pipes, null,
		['WORKER' => (string)$i] + getenv());
foreach ($workers as $worker)
	proc_close($worker);
